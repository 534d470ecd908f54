// Package pages is a local plugin of Traefik, which has no other way to a body for the answers that Traefik itself gives: a page for
// people, JSON for programs. front-routes.yaml has the texts.
package pages

import (
	"context"
	"net/http"
	"strconv"
	"strings"
)

// Config has a text for each status, such as "429", or for all statuses that begin with a digit, such as "5".
type Config struct {
	HTML map[string]string
	JSON map[string]string
}

// CreateConfig is what Traefik calls first.
func CreateConfig() *Config { return &Config{} }

// New is what Traefik calls for each router.
func New(_ context.Context, next http.Handler, config *Config, _ string) (http.Handler, error) {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		answer := &answer{ResponseWriter: writer, kind: "application/json", texts: config.JSON}
		if strings.Contains(strings.Join(request.Header.Values("Accept"), ","), "text/html") {
			answer.kind, answer.texts = "text/html; charset=utf-8", config.HTML
		}
		next.ServeHTTP(answer, request)
	}), nil
}

type answer struct {
	http.ResponseWriter
	kind  string
	texts map[string]string
	isOwn bool
}

func (answer *answer) WriteHeader(status int) {
	header := answer.Header()
	// The token service gives each answer an id.
	if status < 400 || header.Get("X-Request-Id") != "" {
		answer.ResponseWriter.WriteHeader(status)
		return
	}
	answer.isOwn = true
	if status == http.StatusTeapot {
		// That of noop@internal.
		status = http.StatusNotFound
	}
	name := strconv.Itoa(status)
	text, known := answer.texts[name]
	if !known {
		text = answer.texts[name[:1]]
	}
	if (status >= 500 || status == http.StatusTooManyRequests) && header.Get("Retry-After") == "" {
		header.Set("Retry-After", "1")
	}
	header.Del("Content-Length")
	header.Set("Content-Type", answer.kind)
	answer.ResponseWriter.WriteHeader(status)
	_, _ = answer.ResponseWriter.Write([]byte(text))
}

func (answer *answer) Write(body []byte) (int, error) {
	if answer.isOwn {
		return len(body), nil
	}
	return answer.ResponseWriter.Write(body)
}
