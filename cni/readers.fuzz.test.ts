import { expect, test } from "bun:test";
import fc from "fast-check";
import { arbitraryJson } from "../test/fakes/arbitrary-json.ts";
import { leastCount } from "../test/fakes/least-count.ts";
import { decodeCacheEntry, encodeCacheEntry } from "./cache-entry.ts";
import { parseNetworkConf } from "./conf.ts";
import { decodeDelegateCall, encodeDelegateCall } from "./delegate/delegate-call.ts";
import { CniError } from "./error.ts";
import { readPluginOutput } from "./plugin-output.ts";
import { formatResult, parseResult } from "./result.ts";
import { parseNetworksAnnotation } from "./secondary/network-selection.ts";
import { cniVersions } from "./version.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const longMs = 1_800_000;

/** Either a value, or a `CniError`: nothing else may leave a reader. */
function orCniError<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    expect(error).toBeInstanceOf(CniError);
    return undefined;
  }
}

/** A test whose inputs are all rejected shows nothing of what is read. */
function expectSomeRead(read: number): void {
  expect(read).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
}

const octet = fc.nat(255);
const ipv4 = fc.tuple(octet, octet, octet, octet).map((octets) => octets.join("."));
const cidr = fc.oneof(
  fc.tuple(ipv4, fc.nat(32)).map(([address, prefix]) => `${address}/${prefix}`),
  fc
    .tuple(fc.constantFrom("::", "fd00::5", "2001:db8::10.1.0.5"), fc.nat(128))
    .map(([address, prefix]) => `${address}/${prefix}`),
);
const route = fc.record(
  { dst: cidr, gw: ipv4, mtu: fc.integer({ min: 1, max: 9000 }), table: fc.nat(10) },
  { requiredKeys: ["dst"] },
);
const validResult = fc.record({
  interfaces: fc.constant([{ name: "eth0", sandbox: "/run/netns/a" }]),
  ips: fc.array(fc.record({ address: cidr, interface: fc.constant(0) }, { requiredKeys: ["address"] }), {
    minLength: 1,
  }),
  routes: fc.array(route),
  dns: fc.record(
    { domain: fc.string({ minLength: 1 }), search: fc.array(fc.string(), { minLength: 1 }) },
    { requiredKeys: [] },
  ),
});
const fieldNames = [
  "cniVersion",
  "interfaces",
  "ips",
  "routes",
  "dns",
  "ip4",
  "ip6",
  "name",
  "type",
  "plugins",
  "kind",
];
const anyFields = fc.dictionary(fc.constantFrom(...fieldNames), arbitraryJson);
/** Valid objects, and some in which one field is replaced. */
const nearly = (valid: fc.Arbitrary<object>) =>
  fc.oneof(
    valid,
    fc
      .tuple(valid, fc.dictionary(fc.constantFrom(...fieldNames), arbitraryJson, { maxKeys: 1 }))
      .map(([fields, other]) => ({ ...fields, ...other })),
  );
const toText = (value: unknown) => JSON.stringify(value);

test(
  "every valid result is read again from each version that has its fields",
  () => {
    const property = fc.property(validResult, fc.constantFrom("1.0.0", "1.1.0"), (result, version) => {
      expect(parseResult(JSON.parse(JSON.stringify(formatResult(result, version as "1.0.0"))), "0.1.0")).toEqual(
        result,
      );
    });
    fc.assert(property, { numRuns });
  },
  longMs,
);

test(
  "a result of any version is read again as it was written",
  () => {
    fc.assert(
      fc.property(validResult, fc.constantFrom(...cniVersions), (result, version) => {
        const written = formatResult(result, version);
        expect(formatResult(parseResult(written, version), version)).toEqual(written);
      }),
      { numRuns },
    );
  },
  longMs,
);

test(
  "any JSON is a result, or a CniError says why not",
  () => {
    const written = fc
      .tuple(validResult, fc.constantFrom(...cniVersions))
      .map(([result, version]) => formatResult(result, version));
    let read = 0;
    fc.assert(
      fc.property(
        fc.oneof(anyFields, arbitraryJson, nearly(written)),
        fc.constantFrom(...cniVersions),
        (value, version) => {
          const result = orCniError(() => parseResult(value, version));
          if (result === undefined) return;
          const again = orCniError(() => formatResult(result, version));
          if (again !== undefined && result.ips.length > 0) read += 1;
        },
      ),
      { numRuns },
    );
    expectSomeRead(read);
  },
  longMs,
);

test(
  "any text is a network, or a CniError says why not",
  () => {
    const plugin = fc.record(
      {
        type: fc.constantFrom("bridge", "portmap", "a"),
        capabilities: fc.dictionary(fc.constantFrom("ips", "mac"), fc.boolean()),
        ipam: fc.constantFrom({ type: "host-local" }, { type: "" }, {}),
      },
      { requiredKeys: ["type"] },
    );
    const own = { name: fc.constantFrom("lan", "a.b-c"), cniVersion: fc.constantFrom(...cniVersions) };
    const list = fc.record(
      { ...own, plugins: fc.array(nearly(plugin), { minLength: 1 }), disableCheck: fc.constantFrom(true, "false") },
      { requiredKeys: ["name"] },
    );
    const single = fc.tuple(fc.record(own), plugin).map(([network, fields]) => ({ ...network, ...fields }));
    const text = fc.oneof(fc.oneof(anyFields, nearly(list), nearly(single)).map(toText), fc.string());
    let read = 0;
    fc.assert(
      fc.property(text, fc.constantFrom("list", "single plugin", "by type"), (content, form) => {
        if (orCniError(() => parseNetworkConf(content, "a text", form)) !== undefined) read += 1;
      }),
      { numRuns },
    );
    expectSomeRead(read);
  },
  longMs,
);

test(
  "any request is a call of the delegate that is read again as it was written, or a CniError says why not",
  () => {
    const fields = fc.record({
      verb: fc.constantFrom("ADD", "DEL", "CHECK", "GC"),
      containerId: fc.constantFrom("3f2a", "", "../x"),
      netns: fc.constantFrom("/n", "", "n"),
      ifName: fc.oneof(fc.constant("eth0"), fc.string()),
      args: fc.array(fc.oneof(fc.tuple(fc.constantFrom("A", "B"), fc.string()), arbitraryJson)),
      capabilityArgs: fc.oneof(anyFields, arbitraryJson),
    });
    const valid = fc.record({
      verb: fc.constantFrom("ADD", "DEL", "CHECK"),
      containerId: fc.constantFrom("3f2a", "a-b"),
      netns: fc.constantFrom("/n", "/run/netns/a"),
      ifName: fc.constantFrom("eth0", "net1"),
      args: fc.array(fc.tuple(fc.constantFrom("A", "B"), fc.string())),
      capabilityArgs: anyFields,
    });
    const text = fc.oneof(fc.oneof(fields, valid, arbitraryJson).map(toText), fc.string());
    let read = 0;
    fc.assert(
      fc.property(text, (request) => {
        const call = orCniError(() => decodeDelegateCall(request));
        if (call === undefined) return;
        read += 1;
        expect(decodeDelegateCall(encodeDelegateCall(call))).toEqual(call);
      }),
      { numRuns },
    );
    expectSomeRead(read);
  },
  longMs,
);

test(
  "any output of a plugin is an object, nothing, or a CniError",
  () => {
    const output = fc.oneof(fc.string(), fc.oneof(arbitraryJson, anyFields).map(toText));
    let read = 0;
    fc.assert(
      fc.property(
        output,
        fc.string(),
        fc.option(fc.string(), { nil: undefined, freq: 2 }),
        (stdout, stderr, failure) => {
          const fields = orCniError(() => readPluginOutput("p", { failure, stdout, stderr }));
          if (failure !== undefined) expect(fields).toBeUndefined();
          if (fields !== undefined) read += 1;
        },
      ),
      { numRuns },
    );
    expectSomeRead(read);
  },
  longMs,
);

test(
  "any text is a cache entry, or a text says why not",
  () => {
    const key = { network: "n", containerId: "c", ifName: "eth0" };
    const valid = fc.record({
      network: fc.string(),
      containerId: fc.string(),
      ifName: fc.string(),
      netns: fc.string(),
      args: fc.dictionary(fc.string(), fc.string()).map((args) => new Map(Object.entries(args))),
      capabilityArgs: anyFields,
      config: fc.string(),
      result: anyFields,
    });
    const written = valid.map((entry): object => JSON.parse(encodeCacheEntry(entry)));
    const text = fc.oneof(fc.oneof(anyFields, nearly(written)).map(toText), fc.string());
    let read = 0;
    fc.assert(
      fc.property(text, (content) => {
        const entry = decodeCacheEntry(content, key);
        if (typeof entry === "string") return;
        expect(typeof entry.network).toBe("string");
        if (entry.config !== "") read += 1;
      }),
      { numRuns },
    );
    expectSomeRead(read);
  },
  longMs,
);

test(
  "any annotation selects networks with interfaces of their own, or a CniError says why not",
  () => {
    const keys = ["name", "namespace", "interface", "ips", "mac", "portMappings", "bandwidth", "cni-args", "a.b"];
    const element = fc.record(
      { ...Object.fromEntries(keys.map((key) => [key, arbitraryJson])), name: fc.constantFrom("lan", "a/b", "") },
      { requiredKeys: ["name"] },
    );
    const text = fc.oneof(
      fc.array(element).map((elements) => JSON.stringify(elements)),
      fc.array(fc.constantFrom("lan", "a/lan", "lan@net1", "lan@st0")).map((names) => names.join(",")),
      fc.string(),
    );
    let read = 0;
    fc.assert(
      fc.property(text, (annotation) => {
        const pod = { namespace: "shop", ifName: "eth0" };
        const selections = orCniError(() => parseNetworksAnnotation(annotation, pod)) ?? [];
        expect(new Set(["eth0", ...selections.map(({ ifName }) => ifName)]).size).toBe(selections.length + 1);
        if (selections.length > 0) read += 1;
      }),
      { numRuns },
    );
    expectSomeRead(read);
  },
  longMs,
);
