import { expect, test } from "bun:test";
import type { Kube } from "../../kube/client.ts";
import type { KubeObject } from "../../kube/resource.ts";
import type { FollowListener } from "../../kube/watch/reflector.ts";
import type { Node } from "../../proto/kubernetes/gen/types.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { createOwnNode } from "./node-object.ts";

/** A node at a version. */
function at(version: string, uid = "u1"): Node {
  return { metadata: { name: "node-a", uid, resourceVersion: version }, spec: {} };
}

function createScene() {
  const log = new FakeLog();
  const told: string[] = [];
  let listener: FollowListener<KubeObject> | undefined;
  const kube: Pick<Kube, "follow"> = {
    async follow(_, { fieldSelector }, given) {
      told.push(`follows ${fieldSelector}`);
      listener = given as unknown as FollowListener<KubeObject>;
    },
  };
  const own = createOwnNode({
    kube,
    nodeName: "node-a",
    log,
    changed: () => void told.push(print()),
    back: () => void told.push("back"),
  });
  function print(): string {
    const node = own.latest();
    return node === undefined || node === "unknown"
      ? String(node)
      : `${node.metadata.uid} at ${node.metadata.resourceVersion}`;
  }
  void own.follow(new AbortController().signal);
  if (listener === undefined) throw new Error("nobody follows");
  return { own, log, told: () => told.splice(0), listener, latest: print };
}

test("a node is unknown until the API server was heard", () => {
  const { listener, told, latest } = createScene();
  expect([latest(), told()]).toEqual(["unknown", ["follows metadata.name=node-a"]]);
  listener.replaced([], "5", false);
  expect([latest(), told()]).toEqual(["undefined", ["undefined"]]);
  listener.changed("added", at("6"));
  listener.changed("modified", at("7"));
  listener.back();
  listener.changed("deleted", at("8"));
  expect(told()).toEqual(["u1 at 6", "u1 at 7", "back", "undefined"]);
});

test("a Node that is none as we know them is told of, and changes nothing", () => {
  const { own, log, listener, told, latest } = createScene();
  const odd = (version: string) => ({ ...at(version), spec: { taints: [null] } }) as unknown as Node;
  listener.replaced([odd("5")], "5", false);
  own.heard(odd("5"));
  expect(latest()).toBe("unknown");
  listener.changed("modified", at("6"));
  listener.changed("modified", odd("7"));
  expect([told(), latest()]).toEqual([["follows metadata.name=node-a", "u1 at 6"], "u1 at 6"]);
  const problem = "spec.taints[0]: Invalid type: got null, expected object";
  expect(log.told()).toEqual([
    `error: the API server's Node cannot be read, and is left aside: ${problem}`,
    "info: the node's own object can be read again",
    `error: the API server's Node cannot be read, and is left aside: ${problem}`,
  ]);
});

test("what is late does not take the place of what is later", () => {
  const { own, listener, told, latest } = createScene();
  listener.replaced([at("9")], "9", false);
  own.heard(at("10"));
  told();
  listener.changed("modified", at("9"));
  listener.changed("modified", at("10"));
  expect([told(), latest()]).toEqual([[], "u1 at 10"]);
  listener.replaced([], "8", false);
  expect(latest()).toBe("u1 at 10");
});

test("what a server that has gone back says counts, whatever was heard before", () => {
  const { own, listener, latest } = createScene();
  listener.replaced([at("9")], "9", false);
  own.heard(at("10"));
  listener.replaced([at("5")], "6", true);
  expect(latest()).toBe("u1 at 5");
  listener.changed("modified", at("7"));
  expect(latest()).toBe("u1 at 7");
});

test("the end of an earlier object of the name does not end the one that took its place", () => {
  const { own, listener, told, latest } = createScene();
  listener.replaced([at("9")], "9", false);
  own.missed();
  own.heard(at("21", "u2"));
  told();
  listener.changed("deleted", at("20"));
  expect([told(), latest()]).toEqual([[], "u2 at 21"]);
  listener.changed("deleted", at("22", "u2"));
  expect(latest()).toBe("undefined");
});

test("of a server whose versions are no numbers, what is heard last counts", () => {
  const { own, listener, latest } = createScene();
  listener.replaced([at("b")], "b", false);
  own.heard(at("a"));
  expect(latest()).toBe("u1 at a");
});
