//! HTTP/2 within a connection of another protocol.

use std::net::TcpStream;
use std::time::Duration;

use ureq::http::Request;

/// Speaks HTTP/2 on a connection whose other side has switched to it, and sends this request.
pub(super) fn send(connection: TcpStream, request: Request<()>) -> Result<(), h2::Error> {
    connection.set_nonblocking(true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let exchange = async {
        let connection = tokio::net::TcpStream::from_std(connection).unwrap();
        let (client, connection) = h2::client::handshake(connection).await?;
        tokio::spawn(connection);
        let (response, _) = client.ready().await?.send_request(request, true)?;
        response.await.map(|_| ())
    };
    let deadline = Duration::from_secs(60);
    runtime.block_on(async { tokio::time::timeout(deadline, exchange).await.unwrap() })
}
