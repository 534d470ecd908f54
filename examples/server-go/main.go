// A web server whose visitors sign in, and which calls the API for them.
package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"

	"golang.org/x/oauth2"
)

const (
	issuer = "http://127.0.0.1:8081"
	api    = "http://127.0.0.1:8080/api/projects"
	origin = "http://127.0.0.1:3000"
	listen = "127.0.0.1:3000"
)

var config = oauth2.Config{
	ClientID:     "go-app",
	ClientSecret: os.Getenv("CLIENT_SECRET"),
	RedirectURL:  origin + "/callback",
	Scopes:       []string{"projects"},
	Endpoint: oauth2.Endpoint{
		AuthURL:   issuer + "/auth/authorize",
		TokenURL:  issuer + "/auth/token",
		AuthStyle: oauth2.AuthStyleInHeader,
	},
}

// A visitor who signs in has a state and a verifier, a visitor who has signed in has tokens.
type session struct {
	state, verifier string
	tokens          oauth2.TokenSource
}

// Sessions by the id in the visitor's cookie. In memory: a real server has a store, and removes old sessions.
var sessions sync.Map

func random() string {
	bytes := make([]byte, 32)
	if _, err := rand.Read(bytes); err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(bytes)
}

func open(w http.ResponseWriter, s session) {
	id := random()
	sessions.Store(id, s)
	http.SetCookie(w, &http.Cookie{
		Name: "session", Value: id, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: strings.HasPrefix(origin, "https:"),
	})
}

func sessionOf(r *http.Request) (id string, s session) {
	cookie, err := r.Cookie("session")
	if err != nil {
		return "", session{}
	}
	found, _ := sessions.Load(cookie.Value)
	s, _ = found.(session)
	return cookie.Value, s
}

func home(w http.ResponseWriter, r *http.Request) {
	_, s := sessionOf(r)
	if s.tokens == nil {
		s := session{state: random(), verifier: random()}
		open(w, s)
		digest := sha256.Sum256([]byte(s.verifier))
		http.Redirect(w, r, config.AuthCodeURL(s.state,
			oauth2.SetAuthURLParam("code_challenge", base64.RawURLEncoding.EncodeToString(digest[:])),
			oauth2.SetAuthURLParam("code_challenge_method", "S256")), http.StatusFound)
		return
	}
	// The client refreshes the token when it has expired.
	answer, err := oauth2.NewClient(r.Context(), s.tokens).Get(api)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.StatusCode)
	io.Copy(w, answer.Body)
}

func callback(w http.ResponseWriter, r *http.Request) {
	id, s := sessionOf(r)
	query := r.URL.Query()
	// `iss` says that the answer comes from this issuer (RFC 9207).
	if s.state == "" || query.Get("state") != s.state || query.Get("iss") != issuer {
		http.Error(w, "This sign-in did not begin here", http.StatusBadRequest)
		return
	}
	sessions.Delete(id)
	token, err := config.Exchange(r.Context(), query.Get("code"), oauth2.SetAuthURLParam("code_verifier", s.verifier))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	open(w, session{tokens: config.TokenSource(oauth2.NoContext, token)})
	http.Redirect(w, r, "/", http.StatusFound)
}

func main() {
	http.HandleFunc("/", home)
	http.HandleFunc("/callback", callback)
	log.Fatal(http.ListenAndServe(listen, nil))
}
