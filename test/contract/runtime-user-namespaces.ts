import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Runtime } from "../../cri/runtime.ts";
import {
  ContainerConfig,
  ContainerState,
  type IDMapping,
  NamespaceMode,
  PodSandboxConfig,
} from "../../proto/cri/gen/api.ts";
import type { SandboxId } from "../../proto/ids.ts";
import { failureOf, type RuntimeSubject } from "./runtime.ts";

export type UserNamespaceSubject = Pick<RuntimeSubject, "runtime" | "image" | "logDir" | "end">;

/**
 * The contract of a runtime that supports user namespaces. `make` may take minutes, since it may have to build runc.
 */
export function userNamespaceContract(name: string, make: () => Promise<UserNamespaceSubject>): void {
  setDefaultTimeout(600_000);
  describe(`user namespaces of ${name}`, () => {
    let subject: UserNamespaceSubject;
    let runtime: Runtime;
    beforeAll(async () => {
      subject = await make();
      runtime = subject.runtime;
    }, 300_000);
    afterEach(async () => {
      for (const { id } of await runtime.listPodSandbox({})) await runtime.removePodSandbox(id as SandboxId);
    });
    afterAll(() => subject.end());

    const mapping = (slot: number): IDMapping => ({ hostId: 65_536 * slot, containerId: 0, length: 65_536 });
    const namespaces = (slot: number) => ({
      pid: NamespaceMode.CONTAINER,
      usernsOptions: { mode: NamespaceMode.POD, uids: [mapping(slot)], gids: [mapping(slot)] },
    });
    const buildSandboxConfig = (uid: string, slot: number) =>
      PodSandboxConfig.fromPartial({
        metadata: { name: uid, uid, namespace: "contract" },
        logDirectory: `${subject.logDir}/${uid}`,
        linux: { securityContext: { namespaceOptions: namespaces(slot) } },
      });
    const buildContainerConfig = (slot: number) =>
      ContainerConfig.fromPartial({
        metadata: { name: "main" },
        image: { image: subject.image },
        command: ["sleep", "600"],
        mounts: [
          {
            containerPath: "/host",
            hostPath: "/usr",
            readonly: true,
            uidMappings: [mapping(slot)],
            gidMappings: [mapping(slot)],
          },
        ],
        linux: { securityContext: { namespaceOptions: namespaces(slot) } },
      });

    test("Status reports the feature for each runtime handler", async () => {
      const { runtimeHandlers } = await runtime.status();
      const byHandler = runtimeHandlers.map(({ name, features }) => [name, features?.userNamespaces]);
      // containerd 2.0 lists them in random order.
      expect(byHandler.toSorted()).toEqual([
        ["", true],
        ["runc", true],
      ]);
    });

    test("a sandbox and its container run with the requested id mappings and report them", async () => {
      const config = buildSandboxConfig("mapped", 7);
      const sandbox = await runtime.runPodSandbox(config, "");
      const { linux } = await runtime.podSandboxStatus(sandbox);
      expect(linux?.namespaces?.options?.usernsOptions).toEqual(namespaces(7).usernsOptions);
      const container = await runtime.createContainer(sandbox, buildContainerConfig(7), config);
      await runtime.startContainer(container);
      const { state, mounts } = await runtime.containerStatus(container);
      expect(state).toBe(ContainerState.CONTAINER_RUNNING);
      expect(mounts.map(({ containerPath, uidMappings }) => ({ containerPath, uidMappings }))).toEqual([
        { containerPath: "/host", uidMappings: [mapping(7)] },
      ]);
    });

    test("the runtime refuses a container whose id mappings differ from its sandbox's", async () => {
      const config = buildSandboxConfig("different", 7);
      const sandbox = await runtime.runPodSandbox(config, "");
      const failure = await failureOf(runtime.createContainer(sandbox, buildContainerConfig(8), config));
      expect(failure).toMatchObject({ name: "CriError", code: "UNKNOWN" });
      expect(String(failure)).toContain("user namespace config for sandbox is different from container");
    });
  });
}
