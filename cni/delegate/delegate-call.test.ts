import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  decodeDelegateCall,
  encodeDelegateCall,
  isDelegateVerb,
  MAX_REQUEST_BYTES,
  readDelegateCall,
} from "./delegate-call.ts";

const env = {
  CNI_CONTAINERID: "3f2a",
  CNI_NETNS: "/run/netns/blue",
  CNI_IFNAME: "eth0",
  CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web",
};
const runtimeConfig = { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }] };
const attachment = {
  containerId: "3f2a",
  netns: "/run/netns/blue",
  ifName: "eth0",
  args: new Map([
    ["IgnoreUnknown", "1"],
    ["K8S_POD_NAMESPACE", "shop"],
    ["K8S_POD_NAME", "web"],
  ]),
  capabilityArgs: runtimeConfig,
};

test("a call is read from the environment and the configuration, and crosses the socket unchanged", () => {
  for (const verb of ["ADD", "DEL", "CHECK"] as const) {
    const call = readDelegateCall(verb, env, { runtimeConfig });
    expect(call).toEqual({ verb, attachment });
    for (const each of [call, { ...call, timeLeftMs: 120_000 }])
      expect(decodeDelegateCall(encodeDelegateCall(each))).toEqual(each);
  }
});

test("DEL needs no network namespace, which may be gone", () => {
  const { CNI_NETNS, ...rest } = env;
  expect(readDelegateCall("DEL", rest, {}).attachment).toMatchObject({ netns: "", capabilityArgs: {} });
});

test("ADD, DEL and CHECK are handed over, and no other verb", () => {
  const verbs = ["ADD", "DEL", "CHECK", "STATUS", "GC", "VERSION", "add", ""];
  expect(verbs.filter(isDelegateVerb)).toEqual(["ADD", "DEL", "CHECK"]);
});

describe("a parameter that is not valid is refused", () => {
  const rows: readonly (readonly [object, number, string])[] = [
    [{ CNI_CONTAINERID: "" }, 3, "the container id is empty"],
    [{ CNI_CONTAINERID: "../x" }, 4, 'container id: found "../x"'],
    [{ CNI_IFNAME: "a/b" }, 4, 'interface name: found "a/b"'],
    [{ CNI_NETNS: "" }, 4, "CNI_NETNS: found nothing, ADD needs a network namespace"],
    [{ CNI_NETNS: "netns/blue" }, 4, 'CNI_NETNS: found "netns/blue", must be an absolute path'],
    [
      { CNI_NETNS: "/proc/self/ns/net" },
      4,
      'CNI_NETNS: found "/proc/self/ns/net", must be an absolute path that means',
    ],
    [{ CNI_ARGS: "A=b;C" }, 4, 'CNI_ARGS: found "C", must be KEY=VALUE;KEY=VALUE'],
    [{ CNI_ARGS: "A=b=c" }, 4, 'CNI_ARGS: found "A=b=c", must be KEY=VALUE;KEY=VALUE'],
  ];
  for (const [change, code, message] of rows)
    test(message, () =>
      expect(() => readDelegateCall("ADD", { ...env, ...change }, {})).toThrow(
        expect.objectContaining({ code, message: expect.stringContaining(message) }),
      ),
    );
});

test("the static form sends no longer request than the agent reads", () => {
  const source = readFileSync(join(import.meta.dirname, "berth-cni.c"), "utf8");
  const [, mebibytes] = /^#define MAX_REQUEST \((\d+) << 20\)$/m.exec(source) ?? [];
  expect(Number(mebibytes) << 20).toBe(MAX_REQUEST_BYTES);
});

describe("a request that is no call is refused", () => {
  const fields = { verb: "ADD", ...attachment, args: [["A", "b"]] };
  const rows: readonly (readonly [string, number, string])[] = [
    ["{", 6, "the request is not JSON: "],
    ["[]", 6, "the request is no JSON object"],
    [JSON.stringify({ ...fields, verb: "GC" }), 6, 'verb: found "GC", must be one of ADD, DEL, CHECK'],
    [JSON.stringify({ ...fields, verb: undefined }), 6, "verb: found nothing, must be one of ADD, DEL, CHECK"],
    [JSON.stringify({ ...fields, args: { A: "b" } }), 6, 'args: found {"A":"b"}, must be a list of pairs'],
    [JSON.stringify({ ...fields, args: [["A"]] }), 6, 'args: found [["A"]], must be a list of pairs'],
    [JSON.stringify({ ...fields, capabilityArgs: [] }), 6, "capabilityArgs: found [], must be an object"],
    [JSON.stringify({ ...fields, netns: 3 }), 6, "netns: found 3, must be a text"],
    [JSON.stringify({ ...fields, timeLeftMs: 0 }), 6, "timeLeftMs: found 0, must be a whole number of milliseconds"],
    [JSON.stringify({ ...fields, timeLeftMs: "5" }), 6, 'timeLeftMs: found "5", must be a whole number of'],
    [JSON.stringify({ ...fields, containerId: "../x" }), 4, 'container id: found "../x"'],
  ];
  for (const [text, code, message] of rows)
    test(message, () =>
      expect(() => decodeDelegateCall(text)).toThrow(
        expect.objectContaining({ code, message: expect.stringContaining(message) }),
      ),
    );
});
