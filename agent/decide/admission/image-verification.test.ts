import { expect, test } from "bun:test";
import type { ImagePullCredentialsVerificationPolicy } from "../../../proto/kubelet/config.ts";
import type { ImagePullCredentials, ImagePulledRecord, ImagePullSecret } from "../../../proto/kubelet/image-records.ts";
import type { ImagePresence } from "../pod/observed.ts";
import {
  credentialsToRecord,
  type ImageAccess,
  mayUseImages,
  type PodCredentials,
  type RecordedImage,
  verifyImageAccess,
  withAddedCredentials,
  withImageAccess,
} from "./image-verification.ts";

const IMAGE = "registry.example/team/app:1";
const NAME = "registry.example/team/app";
const allowlist = ["registry.example/free/*", "registry.example/team/open"];
const policies: readonly ImagePullCredentialsVerificationPolicy[] = [
  "NeverVerify",
  "NeverVerifyPreloadedImages",
  "NeverVerifyAllowlistedImages",
  "AlwaysVerify",
];

const secret = (uid: string, credentialHash: string): ImagePullSecret => ({
  uid,
  namespace: "shop",
  name: "login",
  credentialHash,
});
const account = (uid: string) => ({ uid, namespace: "shop", name: "default" });
const recordOf = (credentials?: ImagePullCredentials): ImagePulledRecord => ({
  lastUpdatedTime: "2026-01-01T00:00:00Z",
  imageRef: "sha256:1",
  credentialMapping: credentials === undefined ? {} : { [NAME]: credentials },
});
const noCredentials: PodCredentials = { secrets: [], unreadableSecrets: [], serviceAccount: { kind: "none" } };
const by = (...secrets: readonly ImagePullSecret[]): PodCredentials => ({
  secrets,
  unreadableSecrets: [],
  serviceAccount: { kind: "none" },
});
const recorded = (credentials?: ImagePullCredentials): RecordedImage => ({
  isPulledByAgent: true,
  record: recordOf(credentials),
});
const ofSecret = recorded({ kubernetesSecrets: [secret("s", "h")] });
const preloaded: RecordedImage = { isPulledByAgent: false, record: undefined };

const rows: readonly [name: string, image: string, recorded: RecordedImage, credentials: PodCredentials][] = [
  ["preloaded", IMAGE, preloaded, noCredentials],
  ["preloaded, allowlisted by a prefix", "registry.example/free/x:1", preloaded, noCredentials],
  [
    "preloaded, allowlisted by its name",
    `registry.example/team/open@sha256:${"0".repeat(64)}`,
    preloaded,
    noCredentials,
  ],
  ["pulled, without a record", IMAGE, { isPulledByAgent: true, record: undefined }, by(secret("s", "h"))],
  ["pulled, with a record without credentials", IMAGE, recorded(), by(secret("s", "h"))],
  ["pulled with the node's credentials", IMAGE, recorded({ nodePodsAccessible: true }), noCredentials],
  ["pulled with a Secret, the pod has none", IMAGE, ofSecret, noCredentials],
  ["pulled with a Secret, the pod has another one", IMAGE, ofSecret, by(secret("t", "i"))],
  ["pulled with a Secret, the pod has the same one", IMAGE, ofSecret, by(secret("s", "h"))],
  ["pulled with a Secret, the pod has the same credentials in another one", IMAGE, ofSecret, by(secret("t", "h"))],
  ["pulled with a Secret, the pod's Secret has other credentials by now", IMAGE, ofSecret, by(secret("s", "i"))],
  [
    "pulled with a Secret, the pod names it and the API server is unavailable",
    IMAGE,
    ofSecret,
    { secrets: [], unreadableSecrets: [{ namespace: "shop", name: "login" }], serviceAccount: { kind: "none" } },
  ],
  [
    "pulled with a Secret, the pod names one of another namespace and the API server is unavailable",
    IMAGE,
    ofSecret,
    { secrets: [], unreadableSecrets: [{ namespace: "other", name: "login" }], serviceAccount: { kind: "none" } },
  ],
  [
    "pulled with a Secret under another name of the image",
    "registry.example/other/app:1",
    ofSecret,
    by(secret("s", "h")),
  ],
  [
    "pulled with a Secret whose hash is unknown",
    IMAGE,
    recorded({ kubernetesSecrets: [secret("s", "")] }),
    by(secret("t", "")),
  ],
  [
    "pulled with a service account, the pod has it",
    IMAGE,
    recorded({ kubernetesServiceAccounts: [account("a")] }),
    { secrets: [], unreadableSecrets: [], serviceAccount: { kind: "found", account: account("a") } },
  ],
  [
    "pulled with a service account, the pod has a new one of the same name",
    IMAGE,
    recorded({ kubernetesServiceAccounts: [account("a")] }),
    { secrets: [], unreadableSecrets: [], serviceAccount: { kind: "found", account: account("b") } },
  ],
  ...["default", "other"].map((name): (typeof rows)[number] => [
    `pulled with a service account, the pod names ${name === "default" ? "it" : "another"} and the API server is unavailable`,
    IMAGE,
    recorded({ kubernetesServiceAccounts: [account("a")] }),
    { ...noCredentials, serviceAccount: { kind: "unreadable", namespace: "shop", name } },
  ]),
  [
    "pulled with a service account, the pod's is being looked up",
    IMAGE,
    recorded({ kubernetesServiceAccounts: [account("a")] }),
    { ...noCredentials, serviceAccount: { kind: "pending" } },
  ],
  [
    "pulled with a Secret that the pod has, its service account is being looked up",
    IMAGE,
    ofSecret,
    { ...by(secret("s", "h")), serviceAccount: { kind: "pending" } },
  ],
  ["pulled with a Secret, the image name is a JavaScript property", "constructor", ofSecret, by(secret("s", "h"))],
];

test("whether a pod may use an image on the node depends on the policy, the record and the pod's credentials", () => {
  const lines = rows.map(([name, image, record, credentials]) => {
    const verdicts = policies.map((policy) => {
      const access = verifyImageAccess({ policy, allowlist }, image, record, credentials);
      if (access.kind === "unverified") return "verify";
      if (access.kind === "pending") return "wait";
      return access.secretToRecord === undefined
        ? "yes"
        : `yes, record ${access.secretToRecord.uid}:${access.secretToRecord.credentialHash}`;
    });
    return `${name}: ${verdicts.join(" | ")}`;
  });
  expect(`${policies.join(" | ")}\n${lines.join("\n")}`).toMatchInlineSnapshot(`
    "NeverVerify | NeverVerifyPreloadedImages | NeverVerifyAllowlistedImages | AlwaysVerify
    preloaded: yes | yes | verify | verify
    preloaded, allowlisted by a prefix: yes | yes | yes | verify
    preloaded, allowlisted by its name: yes | yes | yes | verify
    pulled, without a record: yes | verify | verify | verify
    pulled, with a record without credentials: yes | verify | verify | verify
    pulled with the node's credentials: yes | yes | yes | yes
    pulled with a Secret, the pod has none: yes | verify | verify | verify
    pulled with a Secret, the pod has another one: yes | verify | verify | verify
    pulled with a Secret, the pod has the same one: yes | yes | yes | yes
    pulled with a Secret, the pod has the same credentials in another one: yes | yes, record t:h | yes, record t:h | yes, record t:h
    pulled with a Secret, the pod's Secret has other credentials by now: yes | yes, record s:i | yes, record s:i | yes, record s:i
    pulled with a Secret, the pod names it and the API server is unavailable: yes | yes | yes | yes
    pulled with a Secret, the pod names one of another namespace and the API server is unavailable: yes | verify | verify | verify
    pulled with a Secret under another name of the image: yes | verify | verify | verify
    pulled with a Secret whose hash is unknown: yes | verify | verify | verify
    pulled with a service account, the pod has it: yes | yes | yes | yes
    pulled with a service account, the pod has a new one of the same name: yes | verify | verify | verify
    pulled with a service account, the pod names it and the API server is unavailable: yes | yes | yes | yes
    pulled with a service account, the pod names another and the API server is unavailable: yes | verify | verify | verify
    pulled with a service account, the pod's is being looked up: yes | wait | wait | wait
    pulled with a Secret that the pod has, its service account is being looked up: yes | yes | yes | yes
    pulled with a Secret, the image name is a JavaScript property: yes | verify | verify | verify"
  `);
});

test("an image record holds at most a hundred Secrets; after that only equal credentials count", () => {
  const many = Array.from({ length: 100 }, (_, n) => secret(`s${n}`, `h${n}`));
  const access = (own: ImagePullSecret) =>
    verifyImageAccess({ policy: "AlwaysVerify", allowlist }, IMAGE, recorded({ kubernetesSecrets: many }), by(own));
  expect(access(secret("t", "h7"))).toEqual({ kind: "granted" });
  expect(access(secret("s7", "i"))).toEqual({ kind: "unverified" });
});

const merges: readonly [
  name: string,
  before: ImagePullCredentials | undefined,
  more: ImagePullCredentials | undefined,
  after: unknown,
][] = [
  ["the first pull without credentials", undefined, undefined, undefined],
  [
    "the first Secret is added",
    undefined,
    { kubernetesSecrets: [secret("s", "h")] },
    { kubernetesSecrets: [secret("s", "h")] },
  ],
  [
    "a second Secret is added",
    { kubernetesSecrets: [secret("t", "i")] },
    { kubernetesSecrets: [secret("s", "h")] },
    { kubernetesSecrets: [secret("s", "h"), secret("t", "i")], kubernetesServiceAccounts: [] },
  ],
  [
    "changed credentials of the same Secret are replaced",
    { kubernetesSecrets: [secret("s", "i")] },
    { kubernetesSecrets: [secret("s", "h")] },
    { kubernetesSecrets: [secret("s", "h")], kubernetesServiceAccounts: [] },
  ],
  [
    "a service account is added",
    { kubernetesSecrets: [secret("s", "h")] },
    { kubernetesServiceAccounts: [account("a")] },
    { kubernetesSecrets: [secret("s", "h")], kubernetesServiceAccounts: [account("a")] },
  ],
  [
    "the node's credentials replace all others",
    { kubernetesSecrets: [secret("s", "h")] },
    { nodePodsAccessible: true },
    { nodePodsAccessible: true },
  ],
];
for (const [name, before, more, after] of merges)
  test(`a pull updates the image record: ${name}`, () => {
    const about = { image: IMAGE, imageRef: "sha256:1", lastUpdatedTime: "2026-02-02T00:00:00Z" };
    const record = withAddedCredentials(before && recordOf(before), about, more);
    expect(record?.credentialMapping[NAME] as unknown).toEqual(after);
    expect(record).toMatchObject({ imageRef: "sha256:1", lastUpdatedTime: "2026-02-02T00:00:00Z" });
    if (record !== undefined) expect(withAddedCredentials(record, about, more)).toBeUndefined();
  });

test("an image that all pods may use stays so, and other names of the image keep their credentials", () => {
  const about = { image: IMAGE, imageRef: "sha256:1", lastUpdatedTime: "2026-02-02T00:00:00Z" };
  const more = { kubernetesSecrets: [secret("s", "h")] };
  expect(withAddedCredentials(recordOf({ nodePodsAccessible: true }), about, more)).toBeUndefined();
  const other = withAddedCredentials(recordOf({ nodePodsAccessible: true }), { ...about, image: "busybox:1" }, more);
  expect(other?.credentialMapping).toEqual({ [NAME]: { nodePodsAccessible: true }, busybox: more });
});

const present = { present: true, ref: "sha256:1", user: { uid: 0, username: "" } } as const;
type Recorded = ReturnType<typeof credentialsToRecord>;
const accesses: readonly [name: string, access: ImageAccess, presence: ImagePresence, toRecord: Recorded][] = [
  ["granted", { kind: "granted" }, present, []],
  [
    "granted by a Secret that is not recorded yet",
    { kind: "granted", secretToRecord: secret("s", "h") },
    { ...present, secretToRecord: secret("s", "h") },
    [{ image: IMAGE, ref: "sha256:1", secret: secret("s", "h") }],
  ],
  ["unverified", { kind: "unverified" }, { ...present, access: "unverified" }, []],
  ["pending", { kind: "pending" }, { ...present, access: "pending" }, []],
];
for (const [name, access, presence, toRecord] of accesses)
  test(`a present image carries the pod's access to it: ${name}`, () => {
    expect<ImagePresence>(withImageAccess(present, access)).toEqual(presence);
    expect(credentialsToRecord({ images: new Map([[IMAGE, presence]]) })).toEqual(toRecord);
  });

test("an image that is absent or could not be inspected has nothing to record", () => {
  const images = new Map<string, ImagePresence>([
    ["a", { present: false }],
    ["b", { present: "unknown", message: "away" }],
  ]);
  expect(credentialsToRecord({ images })).toEqual([]);
});

const termination = { requestedAt: 0, gracePeriodSeconds: 5, why: "it was deleted" };
const terminationRequest = { reason: "Evicted", message: "", gracePeriodSeconds: 0, requestedAt: 0 };
const pods: readonly [name: string, pod: Parameters<typeof mayUseImages>[0], mayUse: boolean][] = [
  ["a desired pod", {}, true],
  ["a terminating pod", { termination }, false],
  ["a pod that the node ends", { terminationRequest }, false],
];
for (const [name, pod, mayUse] of pods)
  test(`${name} ${mayUse ? "uses" : "does not use"} images`, () => expect(mayUseImages(pod)).toBe(mayUse));
