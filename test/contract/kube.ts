import { afterAll, beforeAll, describe, setDefaultTimeout } from "bun:test";
import { createScene, type KubeSubject } from "./kube-fixture.ts";
import { objectsContract } from "./kube-objects.ts";
import { podsContract } from "./kube-pods.ts";
import { followContract } from "./kube-reflector.ts";

/**
 * What every API server does, the fake and the real one alike, as far as the agent relies on it. `make` starts one that has the
 * contract's namespace and takes pods in it.
 */
export function kubeContract(name: string, make: () => Promise<KubeSubject>): void {
  setDefaultTimeout(60_000);
  describe(name, () => {
    let subject: KubeSubject;
    beforeAll(async () => {
      subject = await make();
    });
    afterAll(() => subject.end());
    const scene = createScene(() => subject);
    objectsContract(scene);
    podsContract(scene);
    followContract(scene);
  });
}
