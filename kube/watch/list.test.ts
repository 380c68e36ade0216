import { describe, expect, test } from "bun:test";
import { FakeConnection } from "../../test/fakes/connection.ts";
import { KubeError } from "../error.ts";
import { pods } from "../resource.ts";
import type { KubeRequest } from "../transport/connection.ts";
import { listAll } from "./list.ts";

const pod = (name: string) => ({ metadata: { name } });
const metadata = { resourceVersion: "100" };
const gone = new KubeError("GONE", "the provided continue parameter is too old", { status: 410 });
const list = (connection: FakeConnection) => listAll(connection, pods("shop"), { labelSelector: "app=web" });
const failureOf = (call: Promise<unknown>) =>
  call.then(
    () => "it succeeded",
    (error: KubeError) => error.code,
  );
const limits = ({ requests }: FakeConnection) =>
  requests.map(({ query }) => `${query?.["limit"] ?? "all"} ${query?.["continue"] ?? "from the beginning"}`);

/** Answers the requests one after the other. */
function answering(...answers: readonly unknown[]): FakeConnection {
  const connection = new FakeConnection();
  connection.respond = () => {
    const answer = answers[connection.requests.length - 1];
    if (answer instanceof KubeError) throw answer;
    return answer;
  };
  return connection;
}

test("a list is read page by page", async () => {
  const connection = answering(
    { metadata: { ...metadata, continue: "a" }, items: [pod("one"), pod("two")] },
    { metadata: { ...metadata, continue: "b" }, items: [pod("three")] },
    { metadata: { resourceVersion: "100", continue: "" }, items: [pod("four")] },
  );
  const { items, resourceVersion } = await list(connection);
  expect(items.map((item) => item.metadata.name)).toEqual(["one", "two", "three", "four"]);
  expect(resourceVersion).toBe("100");
  expect(connection.requests[0] as KubeRequest).toMatchObject({
    method: "GET",
    path: "/api/v1/namespaces/shop/pods",
    query: { labelSelector: "app=web", limit: "500" },
    deadlineMs: 30_000,
  });
  expect(limits(connection)).toEqual(["500 from the beginning", "500 a", "500 b"]);
});

test("a list whose continue token expires is read again without paging", async () => {
  const connection = answering({ metadata: { ...metadata, continue: "a" }, items: [pod("old")] }, gone, {
    metadata: { resourceVersion: "200" },
    items: [pod("new")],
  });
  expect(await list(connection)).toEqual({ items: [pod("new")] as never, resourceVersion: "200" });
  expect(limits(connection)).toEqual(["500 from the beginning", "500 a", "all from the beginning"]);
});

test("a list without paging that fails with 410, too, fails", async () => {
  expect(await failureOf(list(answering(gone, gone)))).toBe("GONE");
});

test("any other error of a page fails the list", async () => {
  const page = { metadata: { ...metadata, continue: "a" }, items: [pod("one")] };
  expect(await failureOf(list(answering(page, new KubeError("SERVER", "etcd is away"))))).toBe("SERVER");
});

test("a page that is too large is requested again with a smaller limit and the same continue token", async () => {
  const tooLarge = new KubeError("TOO_LARGE", "the answer is larger than 16 MiB");
  const page = (name: string, next?: string) => ({ metadata: { ...metadata, continue: next }, items: [pod(name)] });
  const connection = answering(page("one", "a"), tooLarge, tooLarge, page("two", "b"), page("three"));
  expect((await list(connection)).items.map((item) => item.metadata.name)).toEqual(["one", "two", "three"]);
  expect(limits(connection)).toEqual(["500 from the beginning", "500 a", "250 a", "125 a", "125 b"]);
});

test("a single object that is too large fails the list", async () => {
  const connection = new FakeConnection();
  connection.respond = () => {
    throw new KubeError("TOO_LARGE", "the answer is larger than 16 MiB");
  };
  expect(await failureOf(list(connection))).toBe("TOO_LARGE");
  expect(limits(connection).at(-1)).toBe("1 from the beginning");
});

test("null is an empty list", async () => {
  expect((await list(answering({ metadata, items: null }))).items).toEqual([]);
});

describe("an answer that is not a list fails:", () => {
  const rows: readonly (readonly [string, unknown])[] = [
    ["nothing", undefined],
    ["text", "a list"],
    ["null", null],
    ["an object", pod("one")],
    ["no resourceVersion", { metadata: {}, items: [] }],
    ["no items", { metadata }],
    ["items that are not an array", { metadata, items: {} }],
    ["an item that is not an object", { metadata, items: [pod("one"), 42] }],
    ["an item without a name", { metadata, items: [{ metadata: {} }] }],
  ];
  for (const [what, answer] of rows)
    test(what, async () => {
      expect(await failureOf(list(answering(answer)))).toBe("NOT_JSON");
    });
});
