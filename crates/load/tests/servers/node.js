// Serves the folder www and prints a line per request. Arguments: http1 or http2, the port in cleartext, that of TLS.
import fs from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import https from "node:https";

const [kind, clear, tls] = process.argv.slice(-3);

function answer(request, response) {
  fs.writeSync(1, `request ${request.method} ${request.url} ${request.httpVersion}\n`);
  response.end(fs.readFileSync(`www${request.url}`));
}

const certificate = { cert: fs.readFileSync("cert.pem"), key: fs.readFileSync("key.pem"), allowHTTP1: true };
const servers =
  kind === "http1"
    ? [http.createServer(answer), https.createServer(certificate, answer)]
    : [http2.createServer(answer), http2.createSecureServer(certificate, answer)];
servers[0].listen(clear, "127.0.0.1");
servers[1].listen(tls, "127.0.0.1");
