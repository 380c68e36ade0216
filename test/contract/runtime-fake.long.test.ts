import { createClock } from "../../host/clock.ts";
import { FakeRuntime } from "../fakes/runtime.ts";
import { behaviours, commands, runtimeContract } from "./runtime.ts";
import { userNamespaceContract } from "./runtime-user-namespaces.ts";

const image = "berth.test/busybox:1";

/** The status shows an exit after its event, as that of containerd does. */
const EXIT_LAG_MS = 20;

for (const source of ["cri-events", "containerd-events"] as const)
  runtimeContract(`the fake runtime with ${source}`, source, async () => {
    const runtime = new FakeRuntime({ clock: createClock(), source, exitLagMs: () => EXIT_LAG_MS });
    runtime.addImage(image);
    runtime.imageGroups.set(4242n, [50_000n]);
    for (const [name, { program }] of Object.entries(behaviours)) runtime.programs.set(name, program);
    for (const [line, command] of commands) runtime.commands.set(line, command);
    return {
      runtime,
      image,
      logDir: "/logs",
      loseState: async (id) => runtime.setUnknown(id),
      hasLoggedReady: async () => true,
      features: { userNamespaces: true, recursiveReadOnlyMounts: true, supplementalGroupsPolicy: true },
      answers: { sandboxStats: "listed", sandboxUpdate: "accepted" },
      end: async () => {},
    };
  });

userNamespaceContract("the fake runtime", async () => {
  const runtime = new FakeRuntime({ clock: createClock() });
  runtime.addImage(image);
  return { runtime, image, logDir: "/logs", end: async () => {} };
});
