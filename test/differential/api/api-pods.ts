import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { barePod, type Manifest } from "../../e2e/cluster/api-objects.ts";

const shell = (script: string) => ["catatonit", "--", "sh", "-c", script];
const SLEEP = "exec sleep 10000";

/** The pods of the requests: running, ended, restarted, waiting for an image, and in an init container. */
export const apiPods: readonly (Pod & Manifest)[] = [
  barePod(
    "web",
    {
      name: "app",
      // The pauses keep the order of lines of two streams.
      command: shell(`echo line 1; echo line 2; sleep 1; echo of stderr >&2; sleep 1; echo line 3; ${SLEEP}`),
    },
    {
      initContainers: [
        { ...barePod("", { name: "init" }).spec.containers[0], name: "init", command: shell("echo of init") },
      ],
    },
  ),
  barePod("ended", { name: "app", command: shell("echo last line; exit 3") }, { restartPolicy: "Never" }),
  barePod(
    "again",
    {
      name: "app",
      command: shell(`[ -e /kept/run ] && { echo second run; ${SLEEP}; }; touch /kept/run; echo first run; exit 1`),
      volumeMounts: [{ name: "kept", mountPath: "/kept" }],
    },
    { volumes: [{ name: "kept", emptyDir: {} }] },
  ),
  barePod("waits", { name: "app", image: "berth.test/none:1", imagePullPolicy: "Never" }),
  barePod(
    "initializes",
    { name: "app" },
    {
      initContainers: [
        { ...barePod("", { name: "init" }).spec.containers[0], name: "init", command: shell(`echo it runs; ${SLEEP}`) },
      ],
    },
  ),
];

/** Whether every pod is in the state that its requests are about. */
export function areApiPodsSettled(pods: readonly Pod[]): boolean {
  const stateOf = (pod: string, kind: "containerStatuses" | "initContainerStatuses" = "containerStatuses") => {
    const status = pods.find(({ metadata }) => metadata.name === pod)?.status?.[kind]?.[0];
    return { restarts: status?.restartCount, ...status?.state };
  };
  const startedAt = Date.parse(stateOf("web").running?.startedAt ?? "");
  return (
    Date.now() - startedAt > 4_000 &&
    stateOf("ended").terminated !== undefined &&
    stateOf("again").restarts === 1 &&
    stateOf("again").running !== undefined &&
    stateOf("waits").waiting?.reason === "ErrImageNeverPull" &&
    stateOf("initializes", "initContainerStatuses").running !== undefined
  );
}
