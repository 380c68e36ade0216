// The server of a pod in https.test.ts: `bun https-server.ts`, run in a container. It imports nothing of this project.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import { createServer as createHttpsServer } from "node:https";

const certificate = { cert: readFileSync("/shared/cert.pem"), key: readFileSync("/shared/key.pem") };

/**
 * Notes the request in `/shared/requests` and answers 200; 503 if the test has made a file of the path's name with the
 * ending `.ill`.
 */
function answer(
  { httpVersion, headers, url = "/" }: IncomingMessage | Http2ServerRequest,
  response: ServerResponse | Http2ServerResponse,
): void {
  const [agent] = (headers["user-agent"] ?? "").split("/");
  appendFileSync("/shared/requests", `HTTPS/${httpVersion} ${url} ${agent}\n`);
  response.statusCode = existsSync(`/shared${url}.ill`) ? 503 : 200;
  response.end("answered");
}

createSecureServer({ ...certificate, allowHTTP1: true }, answer).listen(8443);
createServer((request, response) => {
  const [address] = (request.headers.host ?? "").split(":");
  appendFileSync("/shared/requests", `HTTP/${request.httpVersion} ${request.url}\n`);
  response.writeHead(301, { location: `https://${address}:8443${request.url}` }).end();
}).listen(8080);
// The port of the startup probe comes last: then all others listen when it succeeds.
createHttpsServer(certificate, answer).listen(8444);
