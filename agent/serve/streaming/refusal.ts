import type { Clock } from "../../../host/clock.ts";
import type { BackendAnswer } from "./backend.ts";

/** The answer of a streaming server that does not upgrade. */
export interface Refusal {
  /** As received: in chunks if the headers say so. */
  readonly body: Buffer;
  /** Without those about the connection. */
  readonly headerLines: readonly string[];
}

/** As the kubelet. */
const BODY_TIMEOUT_MS = 10_000;
const MAX_BODY_BYTES = 65_536;

/** Reads the rest of an answer, at most 64 KiB and ten seconds, and closes the connection. */
export async function readRefusal(answer: BackendAnswer, clock: Clock): Promise<Refusal> {
  const { socket, headers } = answer;
  const { promise: complete, resolve } = Promise.withResolvers<void>();
  let body = answer.rest;
  const length = headers["content-length"];
  const isComplete = () =>
    body.length >= MAX_BODY_BYTES ||
    (length !== undefined && body.length >= Number(length)) ||
    (headers["transfer-encoding"] !== undefined && body.toString("latin1").endsWith("0\r\n\r\n"));
  const cancel = clock.wakeAt(clock.now() + BODY_TIMEOUT_MS, resolve);
  socket.on("data", (chunk: Buffer) => {
    body = Buffer.concat([body, chunk]);
    if (isComplete()) resolve();
  });
  socket.on("end", resolve);
  socket.on("close", () => resolve());
  if (isComplete()) resolve();
  else socket.resume();
  await complete;
  cancel();
  socket.destroy();
  return { body: body.subarray(0, MAX_BODY_BYTES), headerLines: headerLinesOf(answer.head) };
}

function headerLinesOf(head: Buffer): readonly string[] {
  const [, ...lines] = head.toString("latin1").trimEnd().split("\r\n");
  return lines.filter((line) => !/^(connection|keep-alive):/i.test(line));
}
