import { expect, test } from "bun:test";
import type { ContainerId, SandboxId } from "../../../proto/ids.ts";
import type { ContainerStateTerminated, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { ObservedContainer } from "../pod/observed.ts";
import { withOomReasons } from "./oom-reason.ts";

const exited = (id: string, exitCode: number, reason: string): ObservedContainer => ({
  state: "exited",
  id: id as ContainerId,
  name: "a",
  sandboxId: "s" as SandboxId,
  attempt: 0,
  createdAt: 0,
  image: "busybox:1",
  imageRef: "",
  crashes: 0,
  hash: undefined,
  startedAt: 0,
  finishedAt: 0,
  exitCode,
  reason,
  message: "",
});

const statusWith = (terminated: ContainerStateTerminated): PodStatus => ({
  phase: "Failed",
  containerStatuses: [
    {
      name: "a",
      ready: false,
      restartCount: 0,
      image: "busybox:1",
      imageID: "",
      ...(terminated.containerID !== undefined && { containerID: terminated.containerID }),
      state: { terminated },
    },
  ],
});

const rows: readonly [sentence: string, reported: ContainerStateTerminated, seen: ObservedContainer, reason: string][] =
  [
    [
      "a reported exit by SIGKILL that the runtime now calls OOMKilled",
      end(137, "Error", "1"),
      exited("1", 137, "OOMKilled"),
      "OOMKilled",
    ],
    [
      "a reported exit by SIGKILL that the runtime calls Error",
      end(137, "Error", "1"),
      exited("1", 137, "Error"),
      "Error",
    ],
    ["a reported exit of another instance", end(137, "Error", "1"), exited("2", 137, "OOMKilled"), "Error"],
    ["a reported exit by another code", end(1, "Error", "1"), exited("1", 1, "OOMKilled"), "Error"],
    [
      "a reported exit with a reason of its own",
      end(137, "StartError", "1"),
      exited("1", 137, "OOMKilled"),
      "StartError",
    ],
  ];

function end(exitCode: number, reason: string, id: string): ContainerStateTerminated {
  return { exitCode, reason, containerID: `containerd://${id}` };
}

for (const [sentence, reported, observed, reason] of rows)
  test(`the final status has the reason ${reason} for ${sentence}`, () => {
    const last = statusWith(reported);
    const mended = withOomReasons(last, { containers: [observed] });
    expect(mended.containerStatuses?.[0]?.state).toEqual({ terminated: { ...reported, reason } });
    expect(mended === last).toBe(reason === reported.reason);
  });
