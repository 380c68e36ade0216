import { afterEach, expect, test } from "bun:test";
// Loaded lazily by the product; loaded here so that it takes no turn of the event loop during a test.
import "../../../proto/yaml/parse.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { fullNameOf } from "../../decide/pod/desired.ts";
import { type Fetch, pollStaticUrl } from "./static-url.ts";

const pod = (name: string) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name },
  spec: { containers: [{ name: "a", image: "busybox:1" }] },
});

const withUid = (name: string, uid: string) => ({ ...pod(name), metadata: { name, uid } });

let ending = new AbortController();
afterEach(() => ending.abort());

/** Polls a URL; `answer` sets its response from now on. */
async function follow(first: Fetch) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const offers: string[] = [];
  const shown: string[] = [];
  const duplicates: (string | undefined)[] = [];
  const asked: (readonly [string, string])[][] = [];
  const server = { answer: first, beforeOffer: () => {} };
  ending = new AbortController();
  void pollStaticUrl(
    {
      url: "https://user:word@pods.example/list?key=1",
      headers: { authorization: ["Bearer t"], "x-rack": ["7", "8"] },
      nodeName: "node",
      checkEveryMs: 20_000,
      fetch: (url, options) => {
        asked.push(options.headers);
        return server.answer(url, options);
      },
      clock,
      log,
      isUidInUse: () => false,
      apply: async (pods) => {
        server.beforeOffer();
        offers.push(pods.map((each) => fullNameOf(each.pod)).join(", "));
      },
      reportErrors: (all, doubled) => {
        shown.splice(0, shown.length, ...all.map(({ file, problem }) => `${file}: ${problem}`));
        duplicates.splice(0, duplicates.length, ...doubled.map(({ metadata }) => metadata.uid));
      },
    },
    ending.signal,
  );
  await settlePromises();
  return { clock, log, offers, shown, duplicates, asked, server };
}

async function* each(bytes: Iterable<Uint8Array>) {
  yield* bytes;
}
const answers =
  (bytes: Iterable<Uint8Array>, status = 200): Fetch =>
  async () => ({ ok: status === 200, status, body: each(bytes) });
const json = (value: unknown) => answers([new TextEncoder().encode(JSON.stringify(value))]);
const refusal = (why: string) => `error: static pods from the URL refused: ${why}; the known pods stay as they are`;

test("a pod is applied once, and each request contains the headers, value by value", async () => {
  const { clock, log, offers, asked } = await follow(json(pod("web")));
  await clock.advance(40_000);
  expect(asked).toHaveLength(3);
  expect(asked[2]).toEqual([
    ["authorization", "Bearer t"],
    ["x-rack", "7"],
    ["x-rack", "8"],
  ]);
  expect(offers).toEqual(["default/web-node"]);
  expect(log.takeLines()).toEqual([]);
});

/** Sends no response before the request is aborted. */
const silence: Fetch = (_, { signal }) =>
  new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));

const refused: readonly (readonly [sentence: string, answer: Fetch, why: string])[] = [
  [
    "a server that is down",
    () => Promise.reject(new Error("Unable to connect", { cause: new Error("refused") })),
    "Unable to connect",
  ],
  ["a server that does not respond", silence, "the server did not answer within 10 s"],
  ["an error of the server", answers([], 503), "the server answered 503"],
  ["bytes that are not text", answers([new Uint8Array([0xff, 0xfe])]), "the answer is not UTF-8 text"],
  [
    "three mebibytes",
    answers(Array.from({ length: 11 }, () => new Uint8Array(1 << 20))),
    "the answer is larger than 2097152 bytes",
  ],
  [
    "a pod without containers",
    json({ ...pod("x"), spec: { containers: [] } }),
    "the answer:1: spec.containers: Required value",
  ],
  [
    "a uid that occurs twice",
    json({ apiVersion: "v1", kind: "PodList", items: [withUid("x", "u-1"), pod("y"), withUid("z", "u-1")] }),
    "the answer:1: items[2]: pod uid u-1 is already defined by items[0]",
  ],
  [
    "the same pod twice",
    json({ apiVersion: "v1", kind: "PodList", items: [withUid("x", "u-1"), withUid("x", "u-1")] }),
    "the answer:1: items[1]: pod uid u-1 is already defined by items[0]",
  ],
];
for (const [sentence, answer, why] of refused)
  test(`${sentence} is logged once while it lasts, and once when it is over`, async () => {
    const { clock, log, offers, shown, server } = await follow(json(pod("web")));
    server.answer = answer;
    await clock.advance(120_000);
    expect(log.takeLines()).toEqual([refusal(why)]);
    expect(shown).toEqual([`https://pods.example/list: ${why}; the known pods stay as they are`]);
    server.answer = json(pod("web"));
    await clock.advance(40_000);
    expect(log.takeLines()).toEqual(["info: static pods are read from the URL again"]);
    expect(shown).toEqual([]);
    expect(offers).toEqual(["default/web-node"]);
  });

test("pods that cannot be applied are logged once and retried until they are applied", async () => {
  const { clock, log, offers, server } = await follow(json(pod("web")));
  server.answer = json(pod("other"));
  server.beforeOffer = () => {
    throw new Error("no room");
  };
  await clock.advance(60_000);
  expect(log.takeLines()).toEqual([
    "error: static pods from the URL cannot be applied: no room; the known pods stay as they are",
  ]);
  server.beforeOffer = () => {};
  await clock.advance(20_000);
  expect(offers).toEqual(["default/web-node", "default/other-node"]);
  expect(log.takeLines()).toEqual(["info: static pods are read from the URL again"]);
});

test("the request of an error response is aborted, since its body is not read", async () => {
  const signals: AbortSignal[] = [];
  await follow((url, options) => {
    signals.push(options.signal);
    return answers([], 503)(url, options);
  });
  expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
});

test("a refused response is logged again after a different error", async () => {
  const { clock, log, server } = await follow(json({ ...pod("web"), kind: "Fish" }));
  server.answer = answers([], 503);
  await clock.advance(20_000);
  server.answer = json({ ...pod("web"), kind: "Fish" });
  await clock.advance(60_000);
  expect(log.takeLines().map((line) => /kind|503/.exec(line)?.[0])).toEqual(["kind", "503", "kind"]);
});

test("neither user, password, query nor header is logged", async () => {
  const { clock, log } = await follow(silence);
  await clock.advance(60_000);
  expect(JSON.stringify(log.lines)).toContain("https://pods.example/list");
  expect(JSON.stringify(log.lines)).not.toMatch(/user|word|key=|Bearer|rack/);
});

test("pods with a duplicate name are reported, except the first, while the response is current", async () => {
  const items = [withUid("x", "u-1"), withUid("x", "u-2"), withUid("y", "u-3")];
  const { clock, offers, duplicates, server } = await follow(json({ apiVersion: "v1", kind: "PodList", items }));
  expect([offers, duplicates]).toEqual([["default/x-node, default/x-node, default/y-node"], ["u-2"]]);
  await clock.advance(60_000);
  expect(duplicates).toEqual(["u-2"]);
  server.answer = answers([], 503);
  await clock.advance(20_000);
  expect(duplicates).toEqual(["u-2"]);
  server.answer = json(withUid("x", "u-1"));
  await clock.advance(20_000);
  expect(duplicates).toEqual([]);
});
