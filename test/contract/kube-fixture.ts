import type { Clock } from "../../host/clock.ts";
import { createKube, type Kube } from "../../kube/client.ts";
import { KubeError, type KubeErrorCode } from "../../kube/error.ts";
import { configMaps, pathOf, pods } from "../../kube/resource.ts";
import type { Connection } from "../../kube/transport/connection.ts";
import type { ConfigMap, Pod } from "../../proto/kubernetes/gen/types.ts";
import { FakeLog } from "../fakes/log.ts";

/** Where everything of the contract lives that has a namespace. */
export const namespace = "contract";

/** An API server to be tested, with one connection to it as an administrator. */
export interface KubeSubject {
  readonly connection: Connection;
  readonly clock: Clock;
  /** Makes the server forget every change until now; watches may break. */
  readonly forget: () => Promise<void>;
  readonly end: () => Promise<void>;
}

/** What the parts of the contract work with, once the subject is there. */
export type KubeScene = ReturnType<typeof createScene>;

/** The code of the error that a call ends with. */
export const codeOf = (call: Promise<unknown>): Promise<KubeErrorCode | "none"> =>
  call.then(
    () => "none" as const,
    (error: unknown) => {
      if (error instanceof KubeError) return error.code;
      throw error;
    },
  );

/** `subject` is asked for with each call: tests are written down before it is there. */
export function createScene(subject: () => KubeSubject) {
  const connection: Connection = {
    request: (request) => subject().connection.request(request),
    lines: (request, onLine, opened) => subject().connection.lines(request, onLine, opened),
    state: () => subject().connection.state(),
    close: () => subject().connection.close(),
  };
  const clock: Clock = {
    now: () => subject().clock.now(),
    wakeAt: (at, wake) => subject().clock.wakeAt(at, wake),
  };
  const kubeOn = (way: Connection): Kube => createKube({ connection: way, clock, log: new FakeLog(), random: () => 0 });
  const kube = kubeOn(connection);
  let names = 0;
  const fresh = () => `thing-${++names}`;

  function aPod({ name = fresh(), nodeName = "contract-a", labels = {}, finalizers = [] as string[] } = {}): Pod {
    return {
      metadata: { name, labels, finalizers },
      spec: {
        ...(nodeName !== "" && { nodeName }),
        automountServiceAccountToken: false,
        containers: [{ name: "c", image: "berth.test/busybox:1" }],
      },
    };
  }

  return {
    connection,
    kube,
    kubeOn,
    forget: () => subject().forget(),
    fresh,
    aPod,
    createPod: (options: Parameters<typeof aPod>[0] = {}) => kube.create(pods(namespace), aPod(options)),
    createMap: (metadata: ConfigMap["metadata"] = {}, data: Record<string, string> = { a: "b" }) =>
      kube.create(configMaps(namespace), { metadata: { name: fresh(), ...metadata }, data }),
    patchStatus: (pod: Pod, status: object, uid?: string) =>
      kube.patch(pods(namespace), pod.metadata.name!, {
        type: "strategic",
        subresource: "status",
        ...(uid !== undefined && { uid }),
        body: { status },
      }),
    remove: (pod: Pod, gracePeriodSeconds?: number) =>
      kube.delete(pods(namespace), pod.metadata.name!, gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }),
    read: (pod: Pod) => kube.get(pods(namespace), pod.metadata.name!),
    /** As the scheduler does it. */
    bind: (pod: Pod, nodeName: string) =>
      connection.request({
        method: "POST",
        path: pathOf(pods(namespace), pod.metadata.name, "binding"),
        body: { apiVersion: "v1", kind: "Binding", metadata: { name: pod.metadata.name }, target: { name: nodeName } },
        deadlineMs: 10_000,
      }),
  };
}
