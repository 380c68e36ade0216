import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  ImageStatusRequest,
  ImageStatusResponse,
  RemoveImageRequest,
  RemoveImageResponse,
} from "../../../proto/cri/gen/api.ts";
import type { TokenAttributes } from "../../../proto/kubelet/credential-provider.ts";
import type { Pod, PullPolicy } from "../../../proto/kubernetes/gen/types.ts";
import { callCri } from "../../bed/containerd/cri-call.ts";
import { type Registry, startRegistry } from "../../bed/containerd/registry.ts";
import { buildTestImages, busyboxImage, importImages } from "../../bed/images/images.ts";
import { copyImage } from "../../bed/images/oci-layout.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { linesContaining } from "../node.ts";
import { barePod } from "./api-objects.ts";
import { areContainersReady, type ClusterNode, parseDescribedEvents, startClusterNode } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("the verification of access to private images");
const V1 = "credentialprovider.kubelet.k8s.io/v1";
const login = { username: "captain", password: "hunter2-let-me-in" };

describe.skipIf(skip !== undefined)("a private image that is on the node", () => {
  let cluster: ClusterNode;
  let registry: Registry;
  let image: string;
  beforeAll(async () => {
    cluster = await startClusterNode();
    registry = await startRegistry(cluster.node.containerd, login);
    image = await push("app");
    const dockerFlags = [`--docker-server=${registry.host}`, `--docker-username=${login.username}`];
    for (const name of ["right", "copy"])
      await cluster.kubectl(
        "create",
        "secret",
        "docker-registry",
        name,
        ...dockerFlags,
        `--docker-password=${login.password}`,
      );
    await apply("owner", "IfNotPresent", "right");
    await waitForPod("owner", "it is up", areContainersReady);
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await registry?.stop();
    await cluster?.tearDown();
  });

  const push = async (name: string) => {
    const built = (await buildTestImages()).find((one) => one.name === busyboxImage)!;
    return await registry.push(copyImage(built, `berth.test/${name}:1`));
  };
  const apply = async (name: string, imagePullPolicy: PullPolicy, ...pullSecrets: readonly string[]) => {
    const imagePullSecrets = pullSecrets.map((each) => ({ name: each }));
    await cluster.apply([barePod(name, { image, imagePullPolicy }, { imagePullSecrets })]);
  };
  const waitForPod = async (name: string, what: string, condition: (pod: Pod) => boolean) => {
    const [pod] = await cluster.waitForPods(what, name, (pods) => pods.length === 1 && pods.every(condition));
    return pod!;
  };
  const waitsFor = (reason: RegExp) => (pod: Pod) =>
    reason.test(pod.status?.containerStatuses?.[0]?.state?.waiting?.reason ?? "");
  const pulledMessage = async (name: string) =>
    await pollUntil("the event Pulled", 15_000, async () => {
      const events = parseDescribedEvents(await cluster.kubectl("describe", "pod", name));
      return events.find(({ reason }) => reason === "Pulled")?.message;
    });
  const accessible = () => `Container image "${image}" already present on machine and can be accessed by the pod`;

  test("is refused to a pod without credentials, with any pull policy", async () => {
    await apply("thief", "IfNotPresent");
    await apply("quiet", "Never");
    await apply("eager", "Always");
    for (const name of ["thief", "eager"]) {
      const { status } = await waitForPod(name, "it cannot be pulled", waitsFor(/^(ErrImagePull|ImagePullBackOff)$/));
      expect(status?.containerStatuses?.[0]?.state?.waiting?.message).toMatch(/authorization|401/i);
    }
    const { status } = await waitForPod("quiet", "it may not be used", waitsFor(/^ErrImageNeverPull$/));
    expect(status?.containerStatuses?.[0]?.state?.waiting?.message).toBe(
      `Container image "${image}" is not present with pull policy of Never`,
    );
  });

  test("is available to pods with its credentials from any Secret, without a request to the registry", async () => {
    const before = linesContaining(await readFile(registry.logFile, "utf8"), "/berth.test/app/").length;
    await apply("same", "IfNotPresent", "right");
    await apply("copy", "IfNotPresent", "copy");
    await apply("never", "Never", "copy");
    for (const name of ["same", "copy", "never"]) {
      await waitForPod(name, "it is up", areContainersReady);
      expect(await pulledMessage(name)).toBe(accessible());
    }
    // The pods without credentials retry their pulls, and get no 200.
    const after = linesContaining(await readFile(registry.logFile, "utf8"), "/berth.test/app/");
    expect(after.slice(before).filter((line) => / 200 /.test(line))).toEqual([]);
  });

  test("is recorded in the kubelet's format, without credentials", async () => {
    const folder = join(cluster.node.paths.agentRoot, "image_manager");
    // The pods without credentials retry their pulls.
    await pollUntil(
      "no pull to be under way",
      10_000,
      async () => (await readdir(join(folder, "pulling"))).length === 0,
    );
    const names = await readdir(join(folder, "pulled"));
    expect(names).toEqual([expect.stringMatching(/^sha256-[0-9a-f]{64}$/)]);
    const text = await readFile(join(folder, "pulled", names[0]!), "utf8");
    const { credentialMapping } = JSON.parse(text);
    const [known] = Object.values(credentialMapping) as { kubernetesSecrets: { name: string }[] }[];
    expect(known?.kubernetesSecrets.map(({ name }) => name)).toEqual(["copy", "right"]);
    expect(text).not.toContain(login.password);
  });

  test("has the same record after a restart of the agent", async () => {
    await cluster.node.agent.stop();
    await cluster.node.startAgent();
    await apply("second-thief", "Never");
    await waitForPod("second-thief", "it may not be used", waitsFor(/^ErrImageNeverPull$/));
    await apply("late", "Never", "right");
    await waitForPod("late", "it is up", areContainersReady);
  });

  test("is available to every pod after it was removed from the node and imported by hand", async () => {
    const { containerd } = cluster.node;
    const [whole, folder] = [image, join(cluster.node.paths.agentRoot, "image_manager", "pulled")];
    const built = copyImage((await buildTestImages()).find((one) => one.name === busyboxImage)!, "berth.test/gone:1");
    image = await registry.push(built);
    try {
      await apply("passing", "IfNotPresent", "right");
      await waitForPod("passing", "it is up", areContainersReady);
      await cluster.kubectl("delete", "pod", "passing", "--timeout=180s");
      expect(await readdir(folder)).toHaveLength(2);
      const removal = RemoveImageRequest.fromPartial({ image: { image } });
      await callCri(
        containerd.endpoint,
        "ImageService/RemoveImage",
        [RemoveImageRequest, removal],
        RemoveImageResponse,
      );
      // The next full relist is in five minutes, or at the start of an agent.
      await cluster.node.agent.stop();
      await cluster.node.startAgent();
      await pollUntil("its record is gone", 15_000, async () => (await readdir(folder)).length === 1);
      await importImages(containerd, [{ ...built, name: image }]);
      const question = ImageStatusRequest.fromPartial({ image: { image } });
      await pollUntil("the runtime to list it by CRI", 15_000, async () => {
        const asked = [ImageStatusRequest, question] as const;
        const answer = await callCri(containerd.endpoint, "ImageService/ImageStatus", asked, ImageStatusResponse);
        return answer.image !== undefined;
      });
      await apply("of-hand", "Never");
      await waitForPod("of-hand", "it is up", areContainersReady);
    } finally {
      image = whole;
    }
  });

  test("is available to every pod with the policy NeverVerify", async () => {
    await cluster.node.agent.stop();
    await cluster.node.startAgent({ imagePullCredentialsVerificationPolicy: "NeverVerify" });
    await waitForPod("quiet", "it is up", areContainersReady);
    await waitForPod("thief", "it is up", areContainersReady);
    expect(await pulledMessage("quiet")).toBe(accessible());
    await cluster.kubectl("delete", "pods", "--all", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });

  describe("with a credential provider on the node", () => {
    let folder: string;
    const file = (name: string) => join(folder, name);
    const readRequests = async () =>
      (await readFile(file("asked"), "utf8"))
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
    const providers = (matchImages: string, tokenAttributes?: Partial<TokenAttributes>) => {
      const vault = { name: "vault", matchImages: [matchImages], defaultCacheDuration: "10m", apiVersion: V1 };
      return {
        apiVersion: "kubelet.config.k8s.io/v1",
        kind: "CredentialProviderConfig",
        providers: [{ ...vault, args: ["login"], ...(tokenAttributes && { tokenAttributes }) }],
      };
    };
    const startWith = async (matchImages: string, tokenAttributes?: Partial<TokenAttributes>) => {
      await writeFile(file("providers.yaml"), JSON.stringify(providers(matchImages, tokenAttributes)));
      await cluster.node.agent.stop();
      const flags = [
        "--image-credential-provider-config",
        file("providers.yaml"),
        "--image-credential-provider-bin-dir",
        folder,
      ];
      await cluster.node.startAgent({}, flags);
    };
    beforeAll(async () => {
      folder = join(cluster.node.folder, "vault");
      await mkdir(folder);
      // The program appends each request to `asked` and prints the file `answer`.
      await writeFile(file("vault"), `#!/bin/sh\ncat >>${file("asked")}\ncat ${file("answer")}\n`, { mode: 0o755 });
    });

    test("is pulled with the provider's credentials and is then available to all pods of the node", async () => {
      const auth = { [registry.host]: login };
      const response = { kind: "CredentialProviderResponse", apiVersion: V1, cacheKeyType: "Registry", auth };
      await writeFile(file("answer"), JSON.stringify(response));
      await startWith(registry.host);
      image = await push("of-vault");
      await apply("first", "IfNotPresent");
      await waitForPod("first", "it is up", areContainersReady);
      await apply("second", "Never");
      await waitForPod("second", "it is up", areContainersReady);
      image = await push("of-vault-too");
      await apply("third", "IfNotPresent");
      await waitForPod("third", "it is up", areContainersReady);
      expect(await readRequests()).toEqual([
        { kind: "CredentialProviderRequest", apiVersion: V1, image: `${registry.host}/berth.test/of-vault` },
      ]);
    });

    test("is pulled with the pod's own credentials if the provider fails, and the log names the failure", async () => {
      await rm(file("answer"));
      await startWith(registry.host.replace("0.0.1", "0.0.*"));
      image = await push("of-nobody");
      await apply("own", "IfNotPresent", "right");
      await waitForPod("own", "it is up", areContainersReady);
      expect(
        await cluster.node.waitForLogLine("a credential provider returned no credentials for an image", "No such file"),
      ).toContain("vault");
      expect(linesContaining(await cluster.node.log(), login.password)).toEqual([]);
      await cluster.kubectl("delete", "pods", "--all", "--timeout=180s");
      await cluster.waitUntilEmpty();
    });

    test("is pulled by a provider with a service account token only if the API server allows the node to request that token", async () => {
      // The program appends each request, and answers only requests for a service account with the role builder.
      const text = `#!/bin/sh\nrequest=$(cat)\necho "$request" >>${file("asked")}\ncase $request in *'"vault.test/role":"builder"'*) cat ${file("answer")};; esac\n`;
      await writeFile(file("vault"), text, { mode: 0o755 });
      const auth = { [registry.host]: login };
      const response = { kind: "CredentialProviderResponse", apiVersion: V1, cacheKeyType: "Registry", auth };
      await writeFile(file("answer"), JSON.stringify(response));
      await rm(file("asked"), { force: true });
      await startWith(registry.host, {
        serviceAccountTokenAudience: "vault.test",
        cacheType: "ServiceAccount",
        requireServiceAccount: true,
        requiredServiceAccountAnnotationKeys: ["vault.test/role"],
      });
      await cluster.kubectl("create", "serviceaccount", "builder");
      await cluster.kubectl("annotate", "serviceaccount", "builder", "vault.test/role=builder");
      image = await push("of-account");
      const applyAs = async (name: string, serviceAccountName: string, imagePullPolicy: PullPolicy) =>
        await cluster.apply([barePod(name, { image, imagePullPolicy }, { serviceAccountName })]);

      await applyAs("early", "builder", "IfNotPresent");
      await waitForPod("early", "it cannot be pulled", waitsFor(/^(ErrImagePull|ImagePullBackOff)$/));
      await cluster.node.waitForLogLine(
        "a credential provider returned no credentials",
        "builder",
        "not authorized to request tokens for",
      );
      // Otherwise its next retry could be the first one to get a token.
      await cluster.kubectl("delete", "pod", "early", "--timeout=180s");
      const verbs = ["request-serviceaccounts-token-audience"];
      const rules = [{ verbs, apiGroups: [""], resources: ["vault.test"], resourceNames: ["builder"] }];
      const role = {
        apiVersion: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRole",
        metadata: { name: "vault" },
        rules,
      };
      await cluster.plane.kubectl(["create", "--filename=-"], { input: JSON.stringify(role) });
      await cluster.kubectl("create", "clusterrolebinding", "vault", "--clusterrole=vault", "--group=system:nodes");
      await applyAs("allowed", "builder", "IfNotPresent");
      await waitForPod("allowed", "it is up", areContainersReady);
      await applyAs("mate", "builder", "Never");
      await applyAs("stranger", "default", "Never");
      await waitForPod("mate", "it is up", areContainersReady);
      await waitForPod("stranger", "it may not be used", waitsFor(/^ErrImageNeverPull$/));

      const [request] = await readRequests();
      expect(request).toMatchObject({
        image: `${registry.host}/berth.test/of-account`,
        serviceAccountAnnotations: { "vault.test/role": "builder" },
      });
      const claims = JSON.parse(Buffer.from(request.serviceAccountToken.split(".")[1], "base64url").toString());
      expect([claims.aud, claims.sub, claims["kubernetes.io"].pod.name]).toEqual([
        ["vault.test"],
        "system:serviceaccount:default:builder",
        "allowed",
      ]);
      expect(linesContaining(await cluster.node.log(), request.serviceAccountToken)).toEqual([]);
      await cluster.kubectl("delete", "pods", "--all", "--timeout=180s");
      await cluster.waitUntilEmpty();
    });

    test("prevents the start of the agent if the provider's program is missing, with an error that names it", async () => {
      await rm(file("vault"));
      await cluster.node.agent.stop();
      await cluster.node.launchAgent({}, [
        "--image-credential-provider-config",
        file("providers.yaml"),
        "--image-credential-provider-bin-dir",
        folder,
      ]);
      expect(await cluster.node.agent.ended).toBe("exited with code 1");
      expect(linesContaining(await cluster.node.log(), "a credential provider is missing", file("vault"))).toHaveLength(
        1,
      );
      await cluster.node.startAgent();
    });
  });
});
