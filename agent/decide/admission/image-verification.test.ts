import { expect, test } from "bun:test";
import type { ImagePullCredentialsVerificationPolicy } from "../../../proto/kubelet/config.ts";
import type { ImagePullCredentials, ImagePulledRecord, ImagePullSecret } from "../../../proto/kubelet/image-records.ts";
import { imageAccess, type PodCredentials, type RecordedImage, withCredentials } from "./image-verification.ts";

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
const nobody: PodCredentials = { secrets: [], unread: [], serviceAccount: undefined };
const by = (...secrets: readonly ImagePullSecret[]): PodCredentials => ({
  secrets,
  unread: [],
  serviceAccount: undefined,
});
const recorded = (credentials?: ImagePullCredentials): RecordedImage => ({
  isPulledHere: true,
  record: recordOf(credentials),
});
const ofSecret = recorded({ kubernetesSecrets: [secret("s", "h")] });
const preloaded: RecordedImage = { isPulledHere: false, record: undefined };

const rows: readonly [name: string, image: string, recorded: RecordedImage, credentials: PodCredentials][] = [
  ["preloaded", IMAGE, preloaded, nobody],
  ["preloaded, allowlisted by a prefix", "registry.example/free/x:1", preloaded, nobody],
  ["preloaded, allowlisted by its name", `registry.example/team/open@sha256:${"0".repeat(64)}`, preloaded, nobody],
  ["pulled by nobody knows whom", IMAGE, { isPulledHere: true, record: undefined }, by(secret("s", "h"))],
  ["pulled, without a word by whom", IMAGE, recorded(), by(secret("s", "h"))],
  ["pulled by the node's right", IMAGE, recorded({ nodePodsAccessible: true }), nobody],
  ["pulled by a Secret, the pod has none", IMAGE, ofSecret, nobody],
  ["pulled by a Secret, the pod has another one", IMAGE, ofSecret, by(secret("t", "i"))],
  ["pulled by a Secret, the pod has the same one", IMAGE, ofSecret, by(secret("s", "h"))],
  ["pulled by a Secret, the pod has the same login in another one", IMAGE, ofSecret, by(secret("t", "h"))],
  ["pulled by a Secret, the pod has it with another login by now", IMAGE, ofSecret, by(secret("s", "i"))],
  [
    "pulled by a Secret, the pod names it and the API server is away",
    IMAGE,
    ofSecret,
    { secrets: [], unread: [{ namespace: "shop", name: "login" }], serviceAccount: undefined },
  ],
  [
    "pulled by a Secret, the pod names one of another namespace and the API server is away",
    IMAGE,
    ofSecret,
    { secrets: [], unread: [{ namespace: "other", name: "login" }], serviceAccount: undefined },
  ],
  [
    "pulled by a Secret under another name of the image",
    "registry.example/other/app:1",
    ofSecret,
    by(secret("s", "h")),
  ],
  [
    "pulled by a Secret whose hash is unknown",
    IMAGE,
    recorded({ kubernetesSecrets: [secret("s", "")] }),
    by(secret("t", "")),
  ],
  [
    "pulled by a service account, the pod has it",
    IMAGE,
    recorded({ kubernetesServiceAccounts: [account("a")] }),
    { secrets: [], unread: [], serviceAccount: account("a") },
  ],
  [
    "pulled by a service account, the pod's is a new one of that name",
    IMAGE,
    recorded({ kubernetesServiceAccounts: [account("a")] }),
    { secrets: [], unread: [], serviceAccount: account("b") },
  ],
  ["the name of the image is one of JavaScript's own", "constructor", ofSecret, by(secret("s", "h"))],
];

test("which pods may use an image that is on the node", () => {
  const shown = rows.map(([name, image, record, credentials]) => {
    const verdicts = policies.map((policy) => {
      const access = imageAccess({ policy, allowlist }, image, record, credentials);
      if (access.kind === "unverified") return "ask";
      return access.learnt === undefined ? "yes" : `yes, learn ${access.learnt.uid}:${access.learnt.credentialHash}`;
    });
    return `${name}: ${verdicts.join(" | ")}`;
  });
  expect(`${policies.join(" | ")}\n${shown.join("\n")}`).toMatchInlineSnapshot(`
    "NeverVerify | NeverVerifyPreloadedImages | NeverVerifyAllowlistedImages | AlwaysVerify
    preloaded: yes | yes | ask | ask
    preloaded, allowlisted by a prefix: yes | yes | yes | ask
    preloaded, allowlisted by its name: yes | yes | yes | ask
    pulled by nobody knows whom: yes | ask | ask | ask
    pulled, without a word by whom: yes | ask | ask | ask
    pulled by the node's right: yes | yes | yes | yes
    pulled by a Secret, the pod has none: yes | ask | ask | ask
    pulled by a Secret, the pod has another one: yes | ask | ask | ask
    pulled by a Secret, the pod has the same one: yes | yes | yes | yes
    pulled by a Secret, the pod has the same login in another one: yes | yes, learn t:h | yes, learn t:h | yes, learn t:h
    pulled by a Secret, the pod has it with another login by now: yes | yes, learn s:i | yes, learn s:i | yes, learn s:i
    pulled by a Secret, the pod names it and the API server is away: yes | yes | yes | yes
    pulled by a Secret, the pod names one of another namespace and the API server is away: yes | ask | ask | ask
    pulled by a Secret under another name of the image: yes | ask | ask | ask
    pulled by a Secret whose hash is unknown: yes | ask | ask | ask
    pulled by a service account, the pod has it: yes | yes | yes | yes
    pulled by a service account, the pod's is a new one of that name: yes | ask | ask | ask
    the name of the image is one of JavaScript's own: yes | ask | ask | ask"
  `);
});

test("of an image with a hundred Secrets no more are learnt, and only the login counts", () => {
  const many = Array.from({ length: 100 }, (_, n) => secret(`s${n}`, `h${n}`));
  const access = (own: ImagePullSecret) =>
    imageAccess({ policy: "AlwaysVerify", allowlist }, IMAGE, recorded({ kubernetesSecrets: many }), by(own));
  expect(access(secret("t", "h7"))).toEqual({ kind: "granted" });
  expect(access(secret("s7", "i"))).toEqual({ kind: "unverified" });
});

const merges: readonly [
  name: string,
  before: ImagePullCredentials | undefined,
  more: ImagePullCredentials | undefined,
  after: unknown,
][] = [
  ["nothing is known of the first pull", undefined, undefined, undefined],
  ["the first Secret", undefined, { kubernetesSecrets: [secret("s", "h")] }, { kubernetesSecrets: [secret("s", "h")] }],
  [
    "a second one",
    { kubernetesSecrets: [secret("t", "i")] },
    { kubernetesSecrets: [secret("s", "h")] },
    { kubernetesSecrets: [secret("s", "h"), secret("t", "i")], kubernetesServiceAccounts: [] },
  ],
  [
    "another login of the same one",
    { kubernetesSecrets: [secret("s", "i")] },
    { kubernetesSecrets: [secret("s", "h")] },
    { kubernetesSecrets: [secret("s", "h")], kubernetesServiceAccounts: [] },
  ],
  [
    "a service account too",
    { kubernetesSecrets: [secret("s", "h")] },
    { kubernetesServiceAccounts: [account("a")] },
    { kubernetesSecrets: [secret("s", "h")], kubernetesServiceAccounts: [account("a")] },
  ],
  [
    "the node's own right is everybody's",
    { kubernetesSecrets: [secret("s", "h")] },
    { nodePodsAccessible: true },
    { nodePodsAccessible: true },
  ],
];
for (const [name, before, more, after] of merges)
  test(`what is written down of an image: ${name}`, () => {
    const about = { image: IMAGE, imageRef: "sha256:1", lastUpdatedTime: "2026-02-02T00:00:00Z" };
    const record = withCredentials(before && recordOf(before), about, more);
    expect(record?.credentialMapping[NAME] as unknown).toEqual(after);
    expect(record).toMatchObject({ imageRef: "sha256:1", lastUpdatedTime: "2026-02-02T00:00:00Z" });
    if (record !== undefined) expect(withCredentials(record, about, more)).toBeUndefined();
  });

test("what is everybody's stays everybody's, and other names of an image keep theirs", () => {
  const about = { image: IMAGE, imageRef: "sha256:1", lastUpdatedTime: "2026-02-02T00:00:00Z" };
  const more = { kubernetesSecrets: [secret("s", "h")] };
  expect(withCredentials(recordOf({ nodePodsAccessible: true }), about, more)).toBeUndefined();
  const other = withCredentials(recordOf({ nodePodsAccessible: true }), { ...about, image: "busybox:1" }, more);
  expect(other?.credentialMapping).toEqual({ [NAME]: { nodePodsAccessible: true }, busybox: more });
});
