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

export type UsersSubject = Pick<RuntimeSubject, "runtime" | "image" | "logFolder" | "end">;

/** What a runtime does that can give a pod users of its own. Making it may take minutes: something may have to be built. */
export function usersContract(name: string, make: () => Promise<UsersSubject>): void {
  setDefaultTimeout(60_000);
  describe(`${name}, which can give pods users of their own,`, () => {
    let subject: UsersSubject;
    let runtime: Runtime;
    beforeAll(async () => {
      subject = await make();
      runtime = subject.runtime;
    }, 300_000);
    afterEach(async () => {
      for (const { id } of await runtime.listPodSandbox({})) await runtime.removePodSandbox(id as SandboxId);
    });
    afterAll(() => subject.end());

    const mapping = (place: number): IDMapping => ({ hostId: 65_536 * place, containerId: 0, length: 65_536 });
    const namespaces = (place: number) => ({
      pid: NamespaceMode.CONTAINER,
      usernsOptions: { mode: NamespaceMode.POD, uids: [mapping(place)], gids: [mapping(place)] },
    });
    const aSandbox = (uid: string, place: number) =>
      PodSandboxConfig.fromPartial({
        metadata: { name: uid, uid, namespace: "contract" },
        logDirectory: `${subject.logFolder}/${uid}`,
        linux: { securityContext: { namespaceOptions: namespaces(place) } },
      });
    const aContainer = (place: number) =>
      ContainerConfig.fromPartial({
        metadata: { name: "main" },
        image: { image: subject.image },
        command: ["sleep", "600"],
        mounts: [
          {
            containerPath: "/host",
            hostPath: "/usr",
            readonly: true,
            uidMappings: [mapping(place)],
            gidMappings: [mapping(place)],
          },
        ],
        linux: { securityContext: { namespaceOptions: namespaces(place) } },
      });

    test("says so, of each of its handlers", async () => {
      const { runtimeHandlers } = await runtime.status();
      expect(runtimeHandlers.map(({ name, features }) => [name, features?.userNamespaces])).toEqual([
        ["", true],
        ["runc", true],
      ]);
    });

    test("a sandbox and its container run with the ids that were asked for, and tell them", async () => {
      const config = aSandbox("mapped", 7);
      const sandbox = await runtime.runPodSandbox(config, "");
      const { linux } = await runtime.podSandboxStatus(sandbox);
      expect(linux?.namespaces?.options?.usernsOptions).toEqual(namespaces(7).usernsOptions);
      const container = await runtime.createContainer(sandbox, aContainer(7), config);
      await runtime.startContainer(container);
      const { state, mounts } = await runtime.containerStatus(container);
      expect(state).toBe(ContainerState.CONTAINER_RUNNING);
      expect(mounts.map(({ containerPath, uidMappings }) => ({ containerPath, uidMappings }))).toEqual([
        { containerPath: "/host", uidMappings: [mapping(7)] },
      ]);
    });

    test("a container with other ids than its sandbox is refused", async () => {
      const config = aSandbox("different", 7);
      const sandbox = await runtime.runPodSandbox(config, "");
      const failure = await failureOf(runtime.createContainer(sandbox, aContainer(8), config));
      expect(failure).toMatchObject({ name: "CriError", code: "UNKNOWN" });
      expect(String(failure)).toContain("user namespace config for sandbox is different from container");
    });
  });
}
