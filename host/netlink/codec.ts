// The wire format of netlink(7): messages of a header, a fixed struct and attributes, which nest. Numbers are in the
// byte order of the machine, little-endian on all that Berth runs on, except where a protocol says otherwise.

import { errnoName, NetlinkError } from "./error.ts";

/** An attribute: its type, and its value or the attributes inside. */
export type Attribute = readonly [type: number, value: Uint8Array | readonly Attribute[]];

/** A message to the kernel. `body` is the fixed struct before the attributes. */
export interface MessageInput {
  readonly type: number;
  readonly flags: number;
  readonly body: Uint8Array;
  readonly attributes: readonly Attribute[];
}

/** A message from the kernel. */
export interface NetlinkMessage {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  readonly payload: Uint8Array;
}

export const NLM_F_REQUEST = 0x1;
export const NLM_F_ACK = 0x4;
export const NLM_F_DUMP_INTR = 0x10;
export const NLM_F_DUMP = 0x300;
export const NLM_F_REPLACE = 0x100;
export const NLM_F_EXCL = 0x200;
export const NLM_F_CREATE = 0x400;
export const NLM_F_APPEND = 0x800;
const NLM_F_CAPPED = 0x100;
const NLM_F_ACK_TLVS = 0x200;
export const NLMSG_NOOP = 1;
export const NLMSG_ERROR = 2;
export const NLMSG_DONE = 3;
const NLMSGERR_ATTR_MSG = 1;
const NLA_F_NESTED = 0x8000;
const NLA_TYPE_MASK = 0x3fff;
const HEADER_BYTES = 16;
const ATTRIBUTE_HEADER_BYTES = 4;

const align = (length: number) => (length + 3) & ~3;
const viewOf = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

export const u8 = (value: number): Uint8Array => Uint8Array.of(value);

export function u32(...values: number[]): Uint8Array {
  const bytes = new Uint8Array(4 * values.length);
  values.forEach((value, index) => {
    viewOf(bytes).setUint32(4 * index, value, true);
  });
  return bytes;
}

export function u64(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  viewOf(bytes).setBigUint64(0, BigInt(value), true);
  return bytes;
}

/** In network byte order, as nfnetlink has all its numbers. */
export function be32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  viewOf(bytes).setUint32(0, value);
  return bytes;
}

export const be16 = (value: number): Uint8Array => Uint8Array.of(value >> 8, value & 255);

/** A text with the null byte that the kernel expects at its end. */
export const text = (value: string): Uint8Array => new TextEncoder().encode(`${value}\0`);

export function concat(...parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let offset = 0;
  for (const part of parts) {
    bytes.set(part, offset);
    offset += part.length;
  }
  return bytes;
}

/** Undefined if there are fewer than four bytes. */
export const readU32 = (bytes: Uint8Array | undefined): number | undefined =>
  bytes !== undefined && bytes.length >= 4 ? viewOf(bytes).getUint32(0, true) : undefined;

/** As `be32` writes it. Undefined if there are fewer than four bytes. */
export const readBe32 = (bytes: Uint8Array | undefined): number | undefined =>
  bytes !== undefined && bytes.length >= 4 ? viewOf(bytes).getUint32(0) : undefined;

/** The text before the first null byte; empty for no bytes. */
export function readText(bytes: Uint8Array | undefined): string {
  const end = bytes?.indexOf(0) ?? -1;
  return new TextDecoder().decode(end < 0 ? bytes : bytes?.subarray(0, end));
}

/** The bytes of one message, padded to a multiple of four. */
export function encodeMessage({ type, flags, body, attributes }: MessageInput, sequence: number): Uint8Array {
  const length = HEADER_BYTES + align(body.length) + sizeOf(attributes);
  const bytes = new Uint8Array(length);
  const view = viewOf(bytes);
  view.setUint32(0, length, true);
  view.setUint16(4, type, true);
  view.setUint16(6, flags, true);
  view.setUint32(8, sequence, true);
  bytes.set(body, HEADER_BYTES);
  writeAttributes(bytes, view, HEADER_BYTES + align(body.length), attributes);
  return bytes;
}

/** Attributes alone, for the few that contain a struct before their attributes. */
export function encodeAttributes(attributes: readonly Attribute[]): Uint8Array {
  const bytes = new Uint8Array(sizeOf(attributes));
  writeAttributes(bytes, viewOf(bytes), 0, attributes);
  return bytes;
}

function sizeOf(attributes: readonly Attribute[]): number {
  return attributes.reduce((sum, [, value]) => sum + ATTRIBUTE_HEADER_BYTES + align(contentSize(value)), 0);
}

const contentSize = (value: Attribute[1]) => (value instanceof Uint8Array ? value.length : sizeOf(value));

function writeAttributes(bytes: Uint8Array, view: DataView, start: number, attributes: readonly Attribute[]): void {
  let offset = start;
  for (const [type, value] of attributes) {
    const length = contentSize(value);
    const isNested = !(value instanceof Uint8Array);
    view.setUint16(offset, ATTRIBUTE_HEADER_BYTES + length, true);
    view.setUint16(offset + 2, isNested ? type | NLA_F_NESTED : type, true);
    offset += ATTRIBUTE_HEADER_BYTES;
    if (isNested) writeAttributes(bytes, view, offset, value);
    else bytes.set(value, offset);
    offset += align(length);
  }
}

const badMessage = (reason: string) => new NetlinkError("EBADMSG", "read the kernel's answer", reason);

/** The messages of one datagram. Throws `EBADMSG` if a length does not fit. */
export function decodeMessages(bytes: Uint8Array): readonly NetlinkMessage[] {
  const view = viewOf(bytes);
  const messages: NetlinkMessage[] = [];
  for (let offset = 0; offset < bytes.length; ) {
    if (bytes.length - offset < HEADER_BYTES)
      throw badMessage(`${bytes.length - offset} bytes are left at ${offset}, fewer than a header has`);
    const length = view.getUint32(offset, true);
    if (length < HEADER_BYTES || offset + length > bytes.length)
      throw badMessage(`the message at ${offset} has the length ${length} in a datagram of ${bytes.length} bytes`);
    messages.push({
      type: view.getUint16(offset + 4, true),
      flags: view.getUint16(offset + 6, true),
      sequence: view.getUint32(offset + 8, true),
      payload: bytes.subarray(offset + HEADER_BYTES, offset + length),
    });
    offset += align(length);
  }
  return messages;
}

/** One attribute as it was received; the flags of its type are removed. */
type ReceivedAttribute = readonly [type: number, value: Uint8Array];

/** The attributes in `bytes`, in their order. Throws `EBADMSG` if a length does not fit. */
export function decodeAttributes(bytes: Uint8Array): readonly ReceivedAttribute[] {
  const view = viewOf(bytes);
  const attributes: ReceivedAttribute[] = [];
  for (let offset = 0; offset + ATTRIBUTE_HEADER_BYTES <= bytes.length; ) {
    const length = view.getUint16(offset, true);
    if (length < ATTRIBUTE_HEADER_BYTES || offset + length > bytes.length)
      throw badMessage(
        `the attribute at ${offset} has the length ${length}, and ${bytes.length - offset} bytes are left`,
      );
    const type = view.getUint16(offset + 2, true) & NLA_TYPE_MASK;
    attributes.push([type, bytes.subarray(offset + ATTRIBUTE_HEADER_BYTES, offset + length)]);
    offset += align(length);
  }
  return attributes;
}

/** The attributes in `bytes` by their type; of two with the same type the last one. */
export const attributesByType = (bytes: Uint8Array | undefined): ReadonlyMap<number, Uint8Array> =>
  new Map(decodeAttributes(bytes ?? new Uint8Array()));

/** The kernel's verdict on a request: 0, or the number of the error, with the kernel's own sentence where it has one. */
export interface Verdict {
  readonly errno: number;
  readonly reason: string;
}

/** Reads the payload of `NLMSG_ERROR`, which acknowledges too, or of `NLMSG_DONE`. Throws `EBADMSG` if it is too short. */
export function decodeVerdict({ type, flags, payload }: NetlinkMessage): Verdict {
  if (payload.length < 4) throw badMessage(`a verdict of ${payload.length} bytes has no error number`);
  const errno = -viewOf(payload).getInt32(0, true);
  return { errno: errno === 0 ? 0 : errno, reason: readText(reasonOf(type, flags, payload)) };
}

/** After the number comes the header of our request, and all of the request unless the kernel has capped it. */
function reasonOf(type: number, flags: number, payload: Uint8Array): Uint8Array | undefined {
  if ((flags & NLM_F_ACK_TLVS) === 0) return undefined;
  const echoed = (flags & NLM_F_CAPPED) !== 0 ? HEADER_BYTES : (readU32(payload.subarray(4)) ?? 0);
  const start = type === NLMSG_ERROR ? 4 + align(echoed) : 4;
  return attributesByType(payload.subarray(Math.min(start, payload.length))).get(NLMSGERR_ATTR_MSG);
}

/** Throws the kernel's refusal. */
export function throwRefusal({ errno, reason }: Verdict, what: string): void {
  if (errno !== 0) throw new NetlinkError(errnoName(errno), what, reason);
}
