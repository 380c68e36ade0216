import { expect, test } from "bun:test";
import { type BearerToken, tokenOfHeader, tokenOfSubprotocols, withoutTokenProtocol } from "./bearer-token.ts";

const headers: readonly (readonly [name: string, header: string | undefined, expected: BearerToken])[] = [
  ["no header has no token", undefined, "none"],
  ["the scheme may have any case", "bEaReR abc", { token: "abc" }],
  ["what follows the token is ignored, as in the kubelet", "Bearer abc def", { token: "abc" }],
  ["another scheme is no credential", "Basic YTpi", "none"],
  ["an empty token is none", "Bearer ", "none"],
  ["a second space leaves no token", "Bearer  abc", "none"],
];
test.each(headers)("%s", (_name, header, expected) => expect(tokenOfHeader(header)).toEqual(expected));

const encoded = (text: string | Uint8Array) =>
  `base64url.bearer.authorization.k8s.io.${Buffer.from(text).toString("base64url")}`;
const subprotocols: readonly (readonly [name: string, header: string | undefined, expected: BearerToken])[] = [
  ["no subprotocol has no token", undefined, "none"],
  ["a token beside another subprotocol counts", `v5.channel.k8s.io, ${encoded("abc")}`, { token: "abc" }],
  ["a token alone leaves nothing to answer with", encoded("abc"), "malformed"],
  ["two tokens are ambiguous", `v5.channel.k8s.io,${encoded("abc")},${encoded("def")}`, "malformed"],
  ["an empty token is none", "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.", "none"],
  ["padding is no base64url", "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.YQ==", "malformed"],
  ["a token is UTF-8", `v5.channel.k8s.io, ${encoded(Uint8Array.of(0xff, 0xfe))}`, "malformed"],
];
test.each(subprotocols)("%s", (_name, header, expected) => expect(tokenOfSubprotocols(header)).toEqual(expected));

test("endpoints see the subprotocols without the token", () => {
  expect(withoutTokenProtocol(`v5.channel.k8s.io,${encoded("abc")}, v4.channel.k8s.io`)).toBe(
    "v5.channel.k8s.io, v4.channel.k8s.io",
  );
});
