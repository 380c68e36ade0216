import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { ReferencedObjects } from "../../../proto/kubernetes/references.ts";
import { pullSecretReferences, referenceKey } from "../../../proto/kubernetes/references.ts";
import { pullSecretEvents } from "./pull-secret-events.ts";

const pod: Pod = {
  metadata: { name: "web", namespace: "shop" },
  spec: { containers: [], imagePullSecrets: [{ name: "login" }, { name: "key" }] },
};
const pull = { uid: "u" as PodUid, pod: "shop/web", action: { kind: "pullImage", image: "a", attempt: 0 } as never };

test("a pull with missing Secrets names them in one event", () => {
  const [login] = pullSecretReferences(pod);
  const known: ReferencedObjects = new Map(login && [[referenceKey(login), { data: {} } as never]]);
  expect(pullSecretEvents({ ...pull, startedAt: 0 }, pod, known)).toEqual([
    {
      type: "Warning",
      reason: "FailedToRetrieveImagePullSecret",
      message: "Unable to retrieve some image pull secrets (key); attempting to pull the image may not succeed.",
    },
  ]);
  const both = "Unable to retrieve some image pull secrets (login, key)";
  expect(pullSecretEvents({ ...pull, startedAt: 0 }, pod, new Map())[0]?.message).toStartWith(both);
  const sandbox = { ...pull, action: { kind: "stopSandbox" } as never, startedAt: 0 };
  expect(pullSecretEvents(sandbox, pod, new Map())).toEqual([]);
});
