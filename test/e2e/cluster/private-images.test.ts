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
import { until } from "../../bed/poll-until.ts";
import { skipWithoutPrograms } from "../../upstream/programs.ts";
import { linesWith } from "../node.ts";
import { barePod } from "./api-objects.ts";
import { type ClusterNode, describedEvents, isUp, startClusterNode } from "./node.ts";

setDefaultTimeout(90_000);

const skip = skipWithoutPrograms("who may use private images");
/** A first run outside of `npm test` builds the programs. */
const BUILD_MS = 20 * 60_000;
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
    const words = [`--docker-server=${registry.host}`, `--docker-username=${login.username}`];
    for (const name of ["right", "copy"])
      await cluster.kubectl(
        "create",
        "secret",
        "docker-registry",
        name,
        ...words,
        `--docker-password=${login.password}`,
      );
    await apply("owner", "IfNotPresent", "right");
    await see("owner", "it is up", isUp);
  }, BUILD_MS);
  afterAll(async () => {
    await registry?.stop();
    await cluster?.end();
  });

  const push = async (name: string) => {
    const built = (await buildTestImages()).find((one) => one.name === busyboxImage)!;
    return await registry.push(copyImage(built, `berth.test/${name}:1`));
  };
  const apply = async (name: string, imagePullPolicy: PullPolicy, ...pullSecrets: readonly string[]) => {
    const imagePullSecrets = pullSecrets.map((each) => ({ name: each }));
    await cluster.apply([barePod(name, { image, imagePullPolicy }, { imagePullSecrets })]);
  };
  const see = async (name: string, what: string, condition: (pod: Pod) => boolean) => {
    const [pod] = await cluster.see(what, name, (pods) => pods.length === 1 && pods.every(condition));
    return pod!;
  };
  const waitsFor = (reason: RegExp) => (pod: Pod) =>
    reason.test(pod.status?.containerStatuses?.[0]?.state?.waiting?.reason ?? "");
  const pulledOf = async (name: string) =>
    await until("the event Pulled", 15_000, async () => {
      const events = describedEvents(await cluster.kubectl("describe", "pod", name));
      return events.find(({ reason }) => reason === "Pulled")?.message;
    });
  const accessible = () => `Container image "${image}" already present on machine and can be accessed by the pod`;

  test("is not for a pod without its login, whatever its pull policy", async () => {
    await apply("thief", "IfNotPresent");
    await apply("quiet", "Never");
    await apply("eager", "Always");
    for (const name of ["thief", "eager"]) {
      const { status } = await see(name, "it cannot be pulled", waitsFor(/^(ErrImagePull|ImagePullBackOff)$/));
      expect(status?.containerStatuses?.[0]?.state?.waiting?.message).toMatch(/authorization|401/i);
    }
    const { status } = await see("quiet", "it may not be used", waitsFor(/^ErrImageNeverPull$/));
    expect(status?.containerStatuses?.[0]?.state?.waiting?.message).toBe(
      `Container image "${image}" is not present with pull policy of Never`,
    );
  });

  test("is for pods with its login, by whatever Secret, without asking the registry", async () => {
    const before = linesWith(await readFile(registry.logFile, "utf8"), "/berth.test/app/").length;
    await apply("same", "IfNotPresent", "right");
    await apply("copy", "IfNotPresent", "copy");
    await apply("never", "Never", "copy");
    for (const name of ["same", "copy", "never"]) {
      await see(name, "it is up", isUp);
      expect(await pulledOf(name)).toBe(accessible());
    }
    // Those that wait for it ask now and then.
    const after = linesWith(await readFile(registry.logFile, "utf8"), "/berth.test/app/");
    expect(after.slice(before).filter((line) => / 200 /.test(line))).toEqual([]);
  });

  test("is written down as the kubelet does, with no login in it", async () => {
    const folder = join(cluster.node.paths.agentRoot, "image_manager");
    // Those that may not have it go on trying to pull it.
    await until("no pull to be under way", 10_000, async () => (await readdir(join(folder, "pulling"))).length === 0);
    const names = await readdir(join(folder, "pulled"));
    expect(names).toEqual([expect.stringMatching(/^sha256-[0-9a-f]{64}$/)]);
    const text = await readFile(join(folder, "pulled", names[0]!), "utf8");
    const { credentialMapping } = JSON.parse(text);
    const [known] = Object.values(credentialMapping) as { kubernetesSecrets: { name: string }[] }[];
    expect(known?.kubernetesSecrets.map(({ name }) => name)).toEqual(["copy", "right"]);
    expect(text).not.toContain(login.password);
  });

  test("is the same one to an agent that was started again", async () => {
    await cluster.node.agent.stop();
    await cluster.node.startAgent();
    await apply("second-thief", "Never");
    await see("second-thief", "it may not be used", waitsFor(/^ErrImageNeverPull$/));
    await apply("late", "Never", "right");
    await see("late", "it is up", isUp);
  });

  test("is anybody's, when it was removed from the node and is put there by hand later", async () => {
    const { containerd } = cluster.node;
    const [whole, folder] = [image, join(cluster.node.paths.agentRoot, "image_manager", "pulled")];
    const built = copyImage((await buildTestImages()).find((one) => one.name === busyboxImage)!, "berth.test/gone:1");
    image = await registry.push(built);
    try {
      await apply("passing", "IfNotPresent", "right");
      await see("passing", "it is up", isUp);
      await cluster.kubectl("delete", "pod", "passing", "--timeout=60s");
      expect(await readdir(folder)).toHaveLength(2);
      const removal = RemoveImageRequest.fromPartial({ image: { image } });
      await callCri(
        containerd.endpoint,
        "ImageService/RemoveImage",
        [RemoveImageRequest, removal],
        RemoveImageResponse,
      );
      // The next look at everything is due in five minutes, or when an agent starts.
      await cluster.node.agent.stop();
      await cluster.node.startAgent();
      await until("its record is gone", 15_000, async () => (await readdir(folder)).length === 1);
      await importImages(containerd, [{ ...built, name: image }]);
      const question = ImageStatusRequest.fromPartial({ image: { image } });
      await until("the runtime's CRI has heard of it", 15_000, async () => {
        const asked = [ImageStatusRequest, question] as const;
        const answer = await callCri(containerd.endpoint, "ImageService/ImageStatus", asked, ImageStatusResponse);
        return answer.image !== undefined;
      });
      await apply("of-hand", "Never");
      await see("of-hand", "it is up", isUp);
    } finally {
      image = whole;
    }
  });

  test("is anybody's under NeverVerify", async () => {
    await cluster.node.agent.stop();
    await cluster.node.startAgent({ imagePullCredentialsVerificationPolicy: "NeverVerify" });
    await see("quiet", "it is up", isUp);
    await see("thief", "it is up", isUp);
    expect(await pulledOf("quiet")).toBe(accessible());
    await cluster.kubectl("delete", "pods", "--all", "--timeout=60s");
    await cluster.empty();
  });

  describe("of which a program of the node has the login", () => {
    let folder: string;
    const file = (name: string) => join(folder, name);
    const asked = async () =>
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
      // It keeps what it is asked, and answers with what lies there.
      await writeFile(file("vault"), `#!/bin/sh\ncat >>${file("asked")}\ncat ${file("answer")}\n`, { mode: 0o755 });
    });

    test("it is pulled by that, and is then for all pods of the node", async () => {
      const auth = { [registry.host]: login };
      const response = { kind: "CredentialProviderResponse", apiVersion: V1, cacheKeyType: "Registry", auth };
      await writeFile(file("answer"), JSON.stringify(response));
      await startWith(registry.host);
      image = await push("of-vault");
      await apply("first", "IfNotPresent");
      await see("first", "it is up", isUp);
      await apply("second", "Never");
      await see("second", "it is up", isUp);
      image = await push("of-vault-too");
      await apply("third", "IfNotPresent");
      await see("third", "it is up", isUp);
      expect(await asked()).toEqual([
        { kind: "CredentialProviderRequest", apiVersion: V1, image: `${registry.host}/berth.test/of-vault` },
      ]);
    });

    test("where the program fails, the pod's own login is used, and the log says why", async () => {
      await rm(file("answer"));
      await startWith(registry.host.replace("0.0.1", "0.0.*"));
      image = await push("of-nobody");
      await apply("own", "IfNotPresent", "right");
      await see("own", "it is up", isUp);
      expect(await cluster.node.logged("a credential provider gives no login for an image", "No such file")).toContain(
        "vault",
      );
      expect(linesWith(await cluster.node.log(), login.password)).toEqual([]);
      await cluster.kubectl("delete", "pods", "--all", "--timeout=60s");
      await cluster.empty();
    });

    test("which it gives for a service account: the API server lets the node have its token for nobody else than it allows", async () => {
      // It answers to who shows it an account of its own, and keeps what it was asked.
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
      await see("early", "it cannot be pulled", waitsFor(/^(ErrImagePull|ImagePullBackOff)$/));
      await cluster.node.logged(
        "a credential provider gives no login",
        "builder",
        "not authorized to request tokens for",
      );
      // Else it might be the first that is given one, when it tries again.
      await cluster.kubectl("delete", "pod", "early", "--timeout=60s");
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
      await see("allowed", "it is up", isUp);
      await applyAs("mate", "builder", "Never");
      await applyAs("stranger", "default", "Never");
      await see("mate", "it is up", isUp);
      await see("stranger", "it may not be used", waitsFor(/^ErrImageNeverPull$/));

      const [request] = await asked();
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
      expect(linesWith(await cluster.node.log(), request.serviceAccountToken)).toEqual([]);
      await cluster.kubectl("delete", "pods", "--all", "--timeout=60s");
      await cluster.empty();
    });

    test("without the program the agent does not start, and says which it is", async () => {
      await rm(file("vault"));
      await cluster.node.agent.stop();
      await cluster.node.launchAgent({}, [
        "--image-credential-provider-config",
        file("providers.yaml"),
        "--image-credential-provider-bin-dir",
        folder,
      ]);
      expect(await cluster.node.agent.ended).toBe("exited with code 1");
      expect(linesWith(await cluster.node.log(), "a credential provider is missing", file("vault"))).toHaveLength(1);
      await cluster.node.startAgent();
    });
  });
});
