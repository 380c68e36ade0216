import { joinWithAnd } from "../../../../proto/join-with-and.ts";
import type { Probe } from "../../../../proto/kubernetes/gen/types.ts";
import { shellWord } from "../../../../proto/shell-word.ts";
import { type CauseInput, type Cure, type CureRule, isStatic, openManifest } from "./cure-rule.ts";
import { networkRules, SANDBOX } from "./network-cures.ts";
import { rejectionRules } from "./rejection-cures.ts";

const imageOf = ({ container, message }: CauseInput) =>
  container?.image ?? /image "?([^\s":]+(?::[\w.-]+)?)/.exec(message)?.[1] ?? "IMAGE";
const registryOf = (image: string) => {
  const [first = ""] = image.split("/");
  return image.includes("/") && /[.:]|^localhost$/.test(first) ? first : "registry-1.docker.io";
};
const namespaceOf = ({ pod }: CauseInput) => pod.metadata.namespace ?? "default";
const nameOf = ({ pod }: CauseInput) => pod.metadata.name ?? "";
const podArguments = (input: CauseInput) =>
  `${nameOf(input)}${namespaceOf(input) === "default" ? "" : ` -n ${namespaceOf(input)}`}`;
const logsOf = (input: CauseInput, ...flags: readonly string[]) =>
  ["berth logs", podArguments(input), input.container && `-c ${input.container.name}`, ...flags]
    .filter((part) => part !== undefined)
    .join(" ");
/** The command that opens the pod, or its manifest, in an editor. */
const edit = ({ manifest, pod: { metadata } }: CauseInput) =>
  manifest === undefined ? `kubectl -n ${metadata.namespace} edit pod ${metadata.name}` : openManifest(manifest);
const imageVolumesOf = ({ pod: { spec } }: CauseInput) =>
  joinWithAnd((spec.volumes ?? []).filter(({ image }) => image !== undefined).map(({ name }) => `volume ${name}`));
/** A static pod cannot refer to Secrets. */
const credentialsText = (input: CauseInput) =>
  isStatic(input)
    ? "write them into config.json in the agent's root directory, as docker login does"
    : "name a Secret of type kubernetes.io/dockerconfigjson in imagePullSecrets";
const pulls = (input: CauseInput) => `crictl pull ${imageOf(input)}`;

const IMAGE = /^(Init:)?(ErrImagePull|ImagePullBackOff|RegistryUnavailable)$/;
const START = /^(Init:)?(RunContainerError|CreateContainerError|StartError|ContainerCannotRun|CrashLoopBackOff|Error)$/;
const CRASH = /^(Init:)?(CrashLoopBackOff|Error|OOMKilled)$/;
const CONFIG = /^(Init:)?(CreateContainerConfigError|FailedMount|ContainerCreating)$/;
/** What runc and crun say of a program that is missing, or is not for this processor. A mount that fails has other words. */
const MISSING_PROGRAM =
  /executable file .*not found|exec format error|\bexec:? (?:"[^"]+"|[^\s"]+): (?:stat [^:]+: )?no such file or directory/i;

/** The first rule whose reason and message match counts. */
const rules: readonly CureRule[] = [
  {
    reason: /^(Init:)?InvalidImageName$/,
    cure: (input) => ({ text: `write a valid image name instead of "${imageOf(input)}"`, commands: [edit(input)] }),
  },
  {
    reason: /^(Init:)?ErrImageNeverPull$/,
    cure: (input) => ({
      text: `the image is not on this node, and imagePullPolicy Never forbids a pull: load the image, or use IfNotPresent`,
      commands: [`crictl images`, `ctr -n k8s.io images import FILE.tar`, edit(input)],
    }),
  },
  {
    reason: IMAGE,
    message: /server gave HTTP response to HTTPS client/,
    cure: (input) => ({
      text: `${registryOf(imageOf(input))} speaks plain HTTP: allow that in the runtime, by a hosts.toml below its config_path`,
      commands: [`ls /etc/containerd/certs.d/${registryOf(imageOf(input))}`],
    }),
  },
  {
    reason: IMAGE,
    message: /x509|certificate/,
    cure: (input) => ({
      text: `this node does not trust the certificate of ${registryOf(imageOf(input))}: add its CA to the runtime's configuration`,
      commands: [`curl -v https://${registryOf(imageOf(input))}/v2/`],
    }),
  },
  {
    reason: IMAGE,
    message: /no such host|lookup |dial tcp|connection refused|i\/o timeout|no route to host|RegistryUnavailable/,
    cure: (input) => ({
      text: `this node does not reach ${registryOf(imageOf(input))}: check the name, DNS, the network and the runtime's proxy settings`,
      commands: [
        `getent hosts ${registryOf(imageOf(input)).split(":")[0]}`,
        `curl -v https://${registryOf(imageOf(input))}/v2/`,
      ],
    }),
  },
  {
    reason: IMAGE,
    message: /unauthorized|authorization failed|denied|forbidden|\b40[13]\b|no basic auth/i,
    cure: (input) => ({
      text: `the registry requires credentials, or refuses the ones it got: ${credentialsText(input)}. Some registries say the same of an image that does not exist`,
      commands: isStatic(input)
        ? [edit(input)]
        : [
            `kubectl -n ${namespaceOf(input)} create secret docker-registry NAME --docker-server=${registryOf(imageOf(input))} --docker-username=USER --docker-password=PASSWORD`,
          ],
    }),
  },
  {
    reason: IMAGE,
    message: /not found|manifest unknown|does not exist|no match for platform/,
    cure: (input) => ({
      text: `the registry has no image "${imageOf(input)}" for this machine: correct its name or tag, or push it`,
      commands: [pulls(input), edit(input)],
    }),
  },
  {
    reason: IMAGE,
    message: /no space left on device/,
    cure: () => ({
      text: "the disk of the runtime is full: remove the images that no container uses",
      commands: ["df -h", "crictl rmi --prune"],
    }),
  },
  {
    reason: IMAGE,
    cure: (input) => ({
      text: "find out why the runtime cannot pull the image",
      commands: [pulls(input), `curl -v https://${registryOf(imageOf(input))}/v2/`],
    }),
  },
  {
    reason: CONFIG,
    message: /(configmap|secret) "([^"]+)" not found/i,
    cure: (input, [, kind = "", name = ""]) => ({
      text: `create the ${kind === "secret" ? "Secret" : "ConfigMap"} ${name} in namespace ${namespaceOf(input)}, correct the name, or make the reference optional`,
      commands: [
        `kubectl -n ${namespaceOf(input)} get ${kind.toLowerCase()}s`,
        `kubectl -n ${namespaceOf(input)} create ${kind.toLowerCase()}${kind.toLowerCase() === "secret" ? " generic" : ""} ${name} --from-literal=KEY=VALUE`,
      ],
    }),
  },
  {
    reason: CONFIG,
    message:
      /couldn't find key (\S+) in (ConfigMap|Secret) ([^/\s]+)\/(\S+)|references non-existent (?:config|secret) key: (\S+)/i,
    cure: (input, [, key, kind = "", , object = ""]) => ({
      text: `the object lacks the key that the pod names: add the key, correct its name, or make the reference optional`,
      commands:
        key === undefined
          ? [edit(input)]
          : [`kubectl -n ${namespaceOf(input)} get ${kind.toLowerCase()} ${object} -o jsonpath='{.data}'`, edit(input)],
    }),
  },
  {
    reason: CONFIG,
    message: /runAsNonRoot|will run as root/,
    cure: (input) => ({
      text: "the image runs as root, or as a user without a number, and runAsNonRoot forbids that: set runAsUser to a number above 0, or change the image",
      commands: [edit(input)],
    }),
  },
  {
    reason: CONFIG,
    message: /hostPath type check failed: (\S+)/,
    cure: (input, [, path = ""]) => ({
      text: `create ${path} on this node as hostPath.type requires it, or change the type`,
      commands: [`ls -ld ${shellWord(path)}`, edit(input)],
    }),
  },
  {
    reason: CONFIG,
    message: /persistentvolumeclaim "([^"]+)" not found|PVC [^/]+\/([^:]+):|unbound/i,
    cure: (input, [, name]) => ({
      text: "the claim does not exist, or has no volume yet",
      commands: [
        `kubectl -n ${namespaceOf(input)} describe pvc ${name ?? ""}`.trimEnd(),
        `kubectl get pv,storageclass`,
      ],
    }),
  },
  {
    // A runtime that does not know image volumes sees a mount without a source, for which it makes a folder.
    reason: START,
    message: /failed to mkdir "":/,
    pod: ({ spec }) => spec.volumes?.some(({ image }) => image !== undefined) === true,
    cure: (input) => ({
      text: `the container runtime does not support image volumes (${imageVolumesOf(input)}): install containerd 2.1 or later, or copy the files into the container's own image`,
      commands: ["berth doctor", edit(input)],
    }),
  },
  {
    reason: /^/,
    message: /not support user namespaces/,
    cure: (input) => ({
      text: "hostUsers: false requires a container runtime with user namespaces, containerd 2 with runc 1.2 or crun 1.9: install one, or remove hostUsers",
      commands: ["berth doctor", edit(input)],
    }),
  },
  {
    reason: START,
    message: MISSING_PROGRAM,
    cure: (input) => ({
      text: `the image "${imageOf(input)}" has no such program, or one for another processor architecture: correct the command or the image`,
      commands: [`crictl inspecti ${imageOf(input)}`, edit(input)],
    }),
  },
  {
    reason: START,
    message: /permission denied/,
    cure: (input) => ({
      text: "the program is not executable, or not for this user: correct its mode in the image, the command, or runAsUser",
      commands: [edit(input)],
    }),
  },
  {
    reason: CRASH,
    message: /OOMKilled/,
    cure: (input) => ({
      text: `the container has used more memory than its limit of ${input.container?.resources?.limits?.["memory"] ?? "its cgroup"}: raise resources.limits.memory, or let it use less`,
      commands: [logsOf(input, "--previous"), edit(input)],
    }),
  },
  {
    reason: CRASH,
    message: /(Liveness|Startup) probe/,
    cure: (input, [, kind = ""]) => ({
      text: `the node restarts the container because its ${kind.toLowerCase()}Probe fails: correct the probe's port or path, or give it more time`,
      commands: [
        ...probeCommands(input, kind === "Startup" ? input.container?.startupProbe : input.container?.livenessProbe),
        logsOf(input, "--previous"),
      ],
    }),
  },
  {
    reason: CRASH,
    message: /exited with code (\d+)/,
    cure: (input, [, code = ""]) => ({ text: exitText(input, Number(code)), commands: [logsOf(input, "--previous")] }),
  },
  ...rejectionRules,
  {
    reason: SANDBOX,
    message: /network-attachment-definitions\S* "[^"]*" is forbidden/,
    cure: () => ({
      text: "let the nodes read the NetworkAttachmentDefinitions that pods select: Berth's deploy/ has the ClusterRole",
      commands: [
        "kubectl apply -f deploy/network-attachment-definitions.yaml",
        "kubectl get clusterrolebinding berth:network-attachment-definitions",
      ],
    }),
  },
  {
    reason: SANDBOX,
    message: /the pod selects the network ([^\s/]+)\/([^\s:,]+)|k8s\.v1\.cni\.cncf\.io\/networks/,
    cure: (input, [, namespace = namespaceOf(input), name]) => ({
      text: "correct the pod's annotation k8s.v1.cni.cncf.io/networks, or the NetworkAttachmentDefinition that it names",
      commands: [
        `kubectl -n ${namespace} get network-attachment-definitions${name === undefined ? "" : ` ${name} -o yaml`}`,
        edit(input),
      ],
    }),
  },
  ...networkRules,
  {
    reason: /^/,
    message: /container runtime is (away|unavailable)|container runtime has not answered/,
    cure: () => ({
      text: "start the container runtime: the agent goes on with the pod when it answers",
      commands: ["systemctl status containerd", "journalctl -u containerd --since -10min", "berth doctor"],
    }),
  },
  {
    reason: /^/,
    message: /is not ready: (Readiness|Liveness|Startup) probe/,
    cure: (input, [, kind = ""]) => ({
      text: `the container runs, and its ${kind.toLowerCase()}Probe fails: correct the probe's port or path, or the program`,
      commands: [
        ...probeCommands(input, kind === "Startup" ? input.container?.startupProbe : input.container?.readinessProbe),
        logsOf(input),
      ],
    }),
  },
];

/** Returns what cures the cause. If no rule matches, the text is empty, and the commands show more about the pod. */
export function cureOf(input: CauseInput): Cure {
  for (const { reason, message = /^/, pod = () => true, cure } of rules) {
    const match = reason.test(input.reason) && pod(input.pod) ? message.exec(input.message) : null;
    if (match !== null) return cure(input, match);
  }
  const { manifest, container } = input;
  const describePod = `kubectl -n ${namespaceOf(input)} describe pod ${nameOf(input)}`;
  return {
    text: "",
    commands: [...(manifest === undefined ? [describePod] : []), ...(container ? [logsOf(input)] : [])],
  };
}

function exitText(input: CauseInput, code: number): string {
  const { pod, container } = input;
  const policy = container?.restartPolicy ?? pod.spec.restartPolicy ?? "Always";
  if (code === 0)
    return `the container's command has ended, and restartPolicy ${policy} starts it again: run a command that stays, or ${isStatic(input) ? "write restartPolicy: OnFailure" : "use a Job"}`;
  if (code === 126) return "its program is not executable: correct its mode in the image, or the command";
  if (code === 127) return "its shell has not found the program: correct command and args";
  if (code === 137)
    return "it was killed by SIGKILL: by the kernel because memory ran out, or because it did not stop in time";
  if (code === 139) return "it has crashed (segmentation fault): see its log";
  if (code === 143) return "it was ended by SIGTERM, and did not handle it: see who sends it";
  return "its program fails: its log says why";
}

/** The commands that ask the same as the probe, from this node. */
function probeCommands(input: CauseInput, probe: Probe | undefined): readonly string[] {
  const { podIP, container } = input;
  const { exec, httpGet, tcpSocket, grpc } = probe ?? {};
  const portOf = (port: number | string) =>
    typeof port === "number" ? port : (container?.ports?.find(({ name }) => name === port)?.containerPort ?? port);
  if (httpGet !== undefined) {
    const { scheme = "HTTP", host = podIP || "POD-IP", port, path = "/" } = httpGet;
    const insecure = scheme === "HTTPS" ? "k" : "";
    const url = `${scheme.toLowerCase()}://${host}:${portOf(port)}${path.startsWith("/") ? path : `/${path}`}`;
    return [`curl -v${insecure} ${shellWord(url)}`];
  }
  if (tcpSocket !== undefined) return [`nc -vz ${tcpSocket.host ?? (podIP || "POD-IP")} ${portOf(tcpSocket.port)}`];
  if (grpc !== undefined) return [`grpc_health_probe -addr ${podIP || "POD-IP"}:${grpc.port}`];
  if (exec?.command === undefined) return [];
  return [`berth exec ${podArguments(input)} -c ${container?.name} -- ${exec.command.map(shellWord).join(" ")}`];
}
