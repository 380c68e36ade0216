import { closeSync } from "node:fs";
import {
  concat,
  decodeMessages,
  decodeVerdict,
  encodeMessage,
  type MessageInput,
  type NetlinkMessage,
  NLM_F_ACK,
  NLM_F_DUMP,
  NLM_F_DUMP_INTR,
  NLM_F_REQUEST,
  NLMSG_DONE,
  NLMSG_ERROR,
  throwRefusal,
} from "./codec.ts";
import { NetlinkError } from "./error.ts";

/** A message, and what it does as the words after "cannot": `create the bridge berth0`. */
export interface NetlinkRequest extends MessageInput {
  readonly what: string;
}

/**
 * A socket of netlink. All calls are synchronous: the kernel carries a request out, and queues the whole answer, before
 * sendto(2) returns. All throw `NetlinkError` with the kernel's code.
 */
export interface NetlinkSocket {
  /** Sends one request; its `flags` need neither `NLM_F_REQUEST` nor `NLM_F_ACK`. Returns what the kernel answers beside the acknowledgement. */
  request(request: NetlinkRequest): readonly NetlinkMessage[];
  /** Returns all objects that the request asks for. Starts again if they change meanwhile. */
  dump(request: NetlinkRequest): readonly NetlinkMessage[];
  /**
   * Sends requests in one datagram, between `begin` and `end`. nfnetlink carries out all or none, rtnetlink each by itself in their
   * order; a process that is killed cannot stop it. Throws the first refusal.
   */
  batch(begin: MessageInput, requests: readonly NetlinkRequest[], end: MessageInput): void;
  close(): void;
}

/** The functions of the C library that a socket uses. */
interface SocketCalls {
  sendto(socket: number, bytes: Uint8Array, length: bigint, flags: number, to: Uint8Array, toLength: number): bigint;
  recv(socket: number, bytes: Uint8Array, length: bigint, flags: number): bigint;
}

const MSG_DONTWAIT = 0x40;
const MSG_TRUNC = 0x20;
/** The kernel sends at most 32 KiB in a datagram of a dump. */
const ANSWER_BYTES = 65536;
const MAX_DUMPS = 5;
/** struct sockaddr_nl of the kernel: the family, and port and groups 0. */
const KERNEL = Uint8Array.of(16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);

/** Takes over the descriptor of an open netlink socket. `errno`: the name of the error of the last call of the C library. */
export function createSocket(calls: SocketCalls, descriptor: number, errno: () => string): NetlinkSocket {
  const buffer = new Uint8Array(ANSWER_BYTES);
  let sequence = 0;

  const nextSequence = () => {
    sequence = (sequence + 1) >>> 0;
    return sequence;
  };

  function send(bytes: Uint8Array, what: string): void {
    const sent = Number(calls.sendto(descriptor, bytes, BigInt(bytes.length), 0, KERNEL, KERNEL.length));
    if (sent < 0) throw new NetlinkError(errno(), what, "");
    if (sent !== bytes.length)
      throw new NetlinkError("EIO", what, `the kernel has taken ${sent} of ${bytes.length} bytes`);
  }

  /** The messages of the next datagram; undefined if none is queued. */
  function receive(what: string): readonly NetlinkMessage[] | undefined {
    const length = Number(calls.recv(descriptor, buffer, BigInt(buffer.length), MSG_DONTWAIT | MSG_TRUNC));
    if (length < 0) return undefined;
    if (length > buffer.length) throw new NetlinkError("EMSGSIZE", what, `the kernel's answer has ${length} bytes`);
    // Copied, since the next datagram overwrites the buffer.
    return decodeMessages(buffer.slice(0, length));
  }

  /** What the kernel answers to one sequence number, until its verdict. Older answers are left over by a failed call. */
  function answerTo(number: number, what: string): readonly NetlinkMessage[] {
    const answers: NetlinkMessage[] = [];
    for (;;) {
      const messages = receive(what);
      if (messages === undefined) throw new NetlinkError("ENOBUFS", what, "the kernel has not answered");
      for (const message of messages.filter((each) => each.sequence === number)) {
        if (message.type !== NLMSG_ERROR && message.type !== NLMSG_DONE) {
          answers.push(message);
          continue;
        }
        throwRefusal(decodeVerdict(message), what);
        // The end of a dump has a flag of its own, which says that the objects have changed during the dump.
        return message.type === NLMSG_DONE ? [...answers, message] : answers;
      }
    }
  }

  function exchange(request: NetlinkRequest, flags: number): readonly NetlinkMessage[] {
    const number = nextSequence();
    send(encodeMessage({ ...request, flags: request.flags | flags | NLM_F_REQUEST }, number), request.what);
    return answerTo(number, request.what);
  }

  return {
    request: (request) => exchange(request, NLM_F_ACK),
    dump(request) {
      for (let dumps = 1; ; dumps++) {
        const messages = exchange(request, NLM_F_DUMP);
        const isInterrupted = messages.some(({ flags }) => (flags & NLM_F_DUMP_INTR) !== 0);
        if (!isInterrupted) return messages.filter(({ type }) => type !== NLMSG_DONE);
        if (dumps === MAX_DUMPS)
          throw new NetlinkError("EINTR", request.what, `they have changed during each of ${MAX_DUMPS} reads`);
      }
    },
    batch(begin, requests, end) {
      const beginning = nextSequence();
      const numbered = requests.map((request) => ({ request, number: nextSequence() }));
      // The last one alone is acknowledged, since the answers to all might not fit into the socket's buffer.
      const asked = numbered.map(({ request, number }, index) => {
        const flags = request.flags | NLM_F_REQUEST | (index === requests.length - 1 ? NLM_F_ACK : 0);
        return encodeMessage({ ...request, flags }, number);
      });
      const all = concat(encodeMessage(begin, beginning), ...asked, encodeMessage(end, nextSequence()));
      const what = requests[0]?.what ?? "send an empty batch";
      send(all, what);
      const verdicts: NetlinkMessage[] = [];
      for (let messages = receive(what); messages !== undefined; messages = receive(what))
        verdicts.push(...messages.filter(({ type }) => type === NLMSG_ERROR));
      checkVerdicts(verdicts, beginning, numbered);
    },
    close: () => closeSync(descriptor),
  };
}

/**
 * Throws the first refusal. The kernel looks at each request of a batch, after a refused one as well; the refusal of the
 * batch as a whole has the number of its beginning.
 */
function checkVerdicts(
  verdicts: readonly NetlinkMessage[],
  beginning: number,
  numbered: readonly { readonly request: NetlinkRequest; readonly number: number }[],
): void {
  for (const message of verdicts) {
    const refused = numbered.find(({ number }) => number === message.sequence)?.request;
    if (refused !== undefined || message.sequence === beginning)
      throwRefusal(decodeVerdict(message), refused?.what ?? numbered[0]?.request.what ?? "carry out the batch");
  }
  const last = numbered.at(-1);
  if (last !== undefined && !verdicts.some(({ sequence }) => sequence === last.number))
    throw new NetlinkError("ENOBUFS", last.request.what, "the kernel has not answered");
}
