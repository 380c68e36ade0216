import { afterAll, beforeAll, describe, setDefaultTimeout } from "bun:test";
import { createFixture, type KubeSubject } from "./kube-fixture.ts";
import { objectsContract } from "./kube-objects.ts";
import { podsContract } from "./kube-pods.ts";
import { reflectorContract } from "./kube-reflector.ts";

/**
 * The contract of an API server, as far as the agent relies on it, for the fake and kube-apiserver. `make` starts one
 * that has the contract's namespace and accepts pods in it.
 */
export function kubeContract(name: string, make: () => Promise<KubeSubject>): void {
  setDefaultTimeout(600_000);
  describe(name, () => {
    let subject: KubeSubject;
    beforeAll(async () => {
      subject = await make();
    });
    afterAll(() => subject.end());
    const fixture = createFixture(() => subject);
    objectsContract(fixture);
    podsContract(fixture);
    reflectorContract(fixture);
  });
}
