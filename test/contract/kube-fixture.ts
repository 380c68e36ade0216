import type { Clock } from "../../host/clock.ts";
import { createKubeClient, type KubeClient } from "../../kube/client.ts";
import { KubeError, type KubeErrorCode } from "../../kube/error.ts";
import { configMaps, pathOf, pods } from "../../kube/resource.ts";
import type { KubeConnection } from "../../kube/transport/connection.ts";
import type { ConfigMap, Pod } from "../../proto/kubernetes/gen/types.ts";
import { FakeLog } from "../fakes/log.ts";

/** The namespace of all namespaced objects of the contract. */
export const namespace = "contract";

/** An API server under test, with one connection to it as an administrator. */
export interface KubeSubject {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  /** Compacts the history of all changes until now; watches may break. */
  readonly compact: () => Promise<void>;
  readonly end: () => Promise<void>;
}

/** Clients and makers of objects for the suites of the contract. */
export type KubeFixture = ReturnType<typeof createFixture>;

/** The code of the error with which a call fails; "none" if it succeeds. */
export const errorCodeOf = (call: Promise<unknown>): Promise<KubeErrorCode | "none"> =>
  call.then(
    () => "none" as const,
    (error: unknown) => {
      if (error instanceof KubeError) return error.code;
      throw error;
    },
  );

/** Calls `subject` with each use, since tests are registered before the subject exists. */
export function createFixture(subject: () => KubeSubject) {
  const connection: KubeConnection = {
    request: (request) => subject().connection.request(request),
    lines: (request, onLine, opened) => subject().connection.lines(request, onLine, opened),
    state: () => subject().connection.state(),
    close: () => subject().connection.close(),
  };
  const clock: Clock = {
    now: () => subject().clock.now(),
    monotonicMs: () => subject().clock.monotonicMs(),
    wakeAt: (at, wake) => subject().clock.wakeAt(at, wake),
  };
  const kubeOn = (via: KubeConnection): KubeClient =>
    createKubeClient({ connection: via, clock, log: new FakeLog(), random: () => 0 });
  const kube = kubeOn(connection);
  let names = 0;
  const uniqueName = () => `thing-${++names}`;

  function buildPod({
    name = uniqueName(),
    nodeName = "contract-a",
    labels = {},
    finalizers = [] as string[],
  } = {}): Pod {
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
    forget: () => subject().compact(),
    fresh: uniqueName,
    aPod: buildPod,
    createPod: (options: Parameters<typeof buildPod>[0] = {}) => kube.create(pods(namespace), buildPod(options)),
    createConfigMap: (metadata: ConfigMap["metadata"] = {}, data: Record<string, string> = { a: "b" }) =>
      kube.create(configMaps(namespace), { metadata: { name: uniqueName(), ...metadata }, data }),
    patchStatus: (pod: Pod, status: object, uid?: string) =>
      kube.patch(pods(namespace), pod.metadata.name!, {
        type: "strategic",
        subresource: "status",
        ...(uid !== undefined && { uid }),
        body: { status },
      }),
    deletePod: (pod: Pod, gracePeriodSeconds?: number) =>
      kube.delete(pods(namespace), pod.metadata.name!, gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }),
    readPod: (pod: Pod) => kube.get(pods(namespace), pod.metadata.name!),
    /** Binds a pod to a node, as the scheduler does. */
    bindPod: (pod: Pod, nodeName: string) =>
      connection.request({
        method: "POST",
        path: pathOf(pods(namespace), pod.metadata.name, "binding"),
        body: { apiVersion: "v1", kind: "Binding", metadata: { name: pod.metadata.name }, target: { name: nodeName } },
        deadlineMs: 10_000,
      }),
  };
}
