import { expect, test } from "bun:test";
import type { KubeClient } from "../../kube/client.ts";
import type { KubeObject } from "../../kube/resource.ts";
import type { ReflectorListener } from "../../kube/watch/reflector.ts";
import type { Node } from "../../proto/kubernetes/gen/types.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { createNodeObject } from "./node-object.ts";

/** A Node object with this resource version. */
function at(version: string, uid = "u1"): Node {
  return { metadata: { name: "node-a", uid, resourceVersion: version }, spec: {} };
}

function createFixture() {
  const log = new FakeLog();
  const reported: string[] = [];
  let listener: ReflectorListener<KubeObject> | undefined;
  const kube: Pick<KubeClient, "listAndWatch"> = {
    async listAndWatch(_, { fieldSelector }, given) {
      reported.push(`follows ${fieldSelector}`);
      listener = given as unknown as ReflectorListener<KubeObject>;
    },
  };
  const own = createNodeObject({
    kube,
    nodeName: "node-a",
    log,
    onChange: () => void reported.push(print()),
    onRecovered: () => void reported.push("back"),
  });
  function print(): string {
    const node = own.latest();
    return node === undefined || node === "unknown"
      ? String(node)
      : `${node.metadata.uid} at ${node.metadata.resourceVersion}`;
  }
  void own.run(new AbortController().signal);
  if (listener === undefined) throw new Error("no listener is registered");
  return { own, log, reported: () => reported.splice(0), listener, latest: print };
}

test("the Node object is unknown until the first read", () => {
  const { listener, reported, latest } = createFixture();
  expect([latest(), reported()]).toEqual(["unknown", ["follows metadata.name=node-a"]]);
  listener.onReplaced([], "5", false);
  expect([latest(), reported()]).toEqual(["undefined", ["undefined"]]);
  listener.onChanged("added", at("6"));
  listener.onChanged("modified", at("7"));
  listener.onRecovered();
  listener.onChanged("deleted", at("8"));
  expect(reported()).toEqual(["u1 at 6", "u1 at 7", "back", "undefined"]);
});

test("a Node object that cannot be decoded is logged and ignored", () => {
  const { own, log, listener, reported, latest } = createFixture();
  const odd = (version: string) => ({ ...at(version), spec: { taints: [null] } }) as unknown as Node;
  listener.onReplaced([odd("5")], "5", false);
  own.observed(odd("5"));
  expect(latest()).toBe("unknown");
  listener.onChanged("modified", at("6"));
  listener.onChanged("modified", odd("7"));
  expect([reported(), latest()]).toEqual([["follows metadata.name=node-a", "u1 at 6"], "u1 at 6"]);
  const problem = "spec.taints[0]: Invalid type: got null, expected object";
  expect(log.takeLines()).toEqual([
    `error: ignoring a Node object that cannot be decoded: ${problem}`,
    "info: the Node object can be decoded again",
    `error: ignoring a Node object that cannot be decoded: ${problem}`,
  ]);
});

test("an older object does not replace a newer one", () => {
  const { own, listener, reported, latest } = createFixture();
  listener.onReplaced([at("9")], "9", false);
  own.observed(at("10"));
  reported();
  listener.onChanged("modified", at("9"));
  listener.onChanged("modified", at("10"));
  expect([reported(), latest()]).toEqual([[], "u1 at 10"]);
  listener.onReplaced([], "8", false);
  expect(latest()).toBe("u1 at 10");
});

test("after the server has gone back to older versions its objects count", () => {
  const { own, listener, latest } = createFixture();
  listener.onReplaced([at("9")], "9", false);
  own.observed(at("10"));
  listener.onReplaced([at("5")], "6", true);
  expect(latest()).toBe("u1 at 5");
  listener.onChanged("modified", at("7"));
  expect(latest()).toBe("u1 at 7");
});

test("the deletion of an earlier object does not remove its successor", () => {
  const { own, listener, reported, latest } = createFixture();
  listener.onReplaced([at("9")], "9", false);
  own.notFound();
  own.observed(at("21", "u2"));
  reported();
  listener.onChanged("deleted", at("20"));
  expect([reported(), latest()]).toEqual([[], "u2 at 21"]);
  listener.onChanged("deleted", at("22", "u2"));
  expect(latest()).toBe("undefined");
});

test("with versions that are not numbers the last received object counts", () => {
  const { own, listener, latest } = createFixture();
  listener.onReplaced([at("b")], "b", false);
  own.observed(at("a"));
  expect(latest()).toBe("u1 at a");
});
