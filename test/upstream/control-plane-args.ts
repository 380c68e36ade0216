import { join } from "node:path";

/** An optional component of a control plane, beside etcd and the API server. */
export type ControlPlaneComponent = "kube-controller-manager" | "kube-scheduler";

/** The control plane's file paths, and its ports of 127.0.0.1. */
export interface ControlPlanePlan {
  readonly files: ReturnType<typeof controlPlaneFiles>;
  readonly ports: Readonly<Record<"etcd" | "etcdPeer" | "apiServer" | ControlPlaneComponent, number>>;
}

/** The paths of the control plane's files. */
export function controlPlaneFiles(folder: string, certs: string, etcdData: string) {
  return {
    folder,
    certs,
    etcdData,
    ca: join(certs, "ca.crt"),
    caKey: join(certs, "ca.key"),
    serverCert: join(certs, "server.crt"),
    serverKey: join(certs, "server.key"),
    kubeletClientCert: join(certs, "kubelet-client.crt"),
    kubeletClientKey: join(certs, "kubelet-client.key"),
    serviceAccountKey: join(certs, "service-accounts.key"),
    kubectlCache: join(folder, "kubectl-cache"),
    kubeconfig: (user: string) => join(folder, `${user}.kubeconfig`),
  };
}

/** Directly below the pod addresses of test beds, which start at 10.192.0.0. */
const serviceRange = "10.191.0.0/24";
/**
 * Hosts of the server certificate. The Service `kubernetes` has the first address of the service range. A guest of QEMU
 * reaches this machine as 10.0.2.2.
 */
export const serverHosts = [
  "127.0.0.1",
  "10.0.2.2",
  "localhost",
  "10.191.0.1",
  "kubernetes",
  "kubernetes.default",
  "kubernetes.default.svc",
];

const absentGroups = ["admissionregistration.k8s.io/v1", "autoscaling/v1", "autoscaling/v2"];
/** They list objects of the absent groups, and reject requests until they can. */
const pluginsOfAbsentGroups = [
  "MutatingAdmissionPolicy",
  "MutatingAdmissionWebhook",
  "ValidatingAdmissionPolicy",
  "ValidatingAdmissionWebhook",
];

/**
 * Controllers that no test needs. Each makes an account, a token and watches at its start. Without
 * clusterrole-aggregation-controller the ClusterRoles admin, edit and view are empty.
 */
const absentControllers = [
  "clusterrole-aggregation-controller",
  "cronjob-controller",
  "device-taint-eviction-controller",
  "disruption-controller",
  "endpointslice-mirroring-controller",
  "horizontal-pod-autoscaler-controller",
  "legacy-serviceaccount-token-cleaner-controller",
  "persistentvolume-expander-controller",
  "replicationcontroller-controller",
  "resourcequota-controller",
  "service-cidr-controller",
  "ttl-after-finished-controller",
  "validatingadmissionpolicy-status-controller",
  "volumeattributesclass-protection-controller",
];

/** One etcd member that elects itself at once and does not sync its data to disk. */
export function etcdArgs({ files, ports }: ControlPlanePlan): readonly string[] {
  const client = `http://127.0.0.1:${ports.etcd}`;
  const peer = `http://127.0.0.1:${ports.etcdPeer}`;
  return [
    "--name=test",
    `--data-dir=${files.etcdData}`,
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=test=${peer}`,
    "--heartbeat-interval=50",
    "--election-timeout=250",
    "--unsafe-no-fsync",
    "--log-level=warn",
  ];
}

/**
 * The API server with the Node authorizer and NodeRestriction admission, which limit a node to its own pods. The
 * Service `kubernetes` gets no endpoint: it must not be a loopback address, and the server has no other. The API groups
 * of autoscalers, webhooks and admission policies are absent: no test has such objects, and a start with them takes a
 * seventh more CPU time.
 */
export function apiServerArgs({ files, ports }: ControlPlanePlan): readonly string[] {
  return [
    `--etcd-servers=http://127.0.0.1:${ports.etcd}`,
    "--bind-address=127.0.0.1",
    "--advertise-address=127.0.0.1",
    "--endpoint-reconciler-type=none",
    `--secure-port=${ports.apiServer}`,
    `--service-cluster-ip-range=${serviceRange}`,
    `--cert-dir=${files.certs}`,
    `--client-ca-file=${files.ca}`,
    `--tls-cert-file=${files.serverCert}`,
    `--tls-private-key-file=${files.serverKey}`,
    `--kubelet-client-certificate=${files.kubeletClientCert}`,
    `--kubelet-client-key=${files.kubeletClientKey}`,
    "--kubelet-preferred-address-types=InternalIP,Hostname",
    `--service-account-key-file=${files.serviceAccountKey}`,
    `--service-account-signing-key-file=${files.serviceAccountKey}`,
    "--service-account-issuer=https://kubernetes.default.svc",
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    `--disable-admission-plugins=${pluginsOfAbsentGroups.join()}`,
    `--runtime-config=${absentGroups.map((group) => `${group}=false`).join()}`,
    "--enable-bootstrap-token-auth",
    "--allow-privileged=true",
  ];
}

/**
 * The controller manager or the scheduler, as the user that a real cluster gives it. Raised QPS limits keep tests from
 * waiting for it: with the default limits the controllers alone take five seconds to start.
 */
export function componentArgs(component: ControlPlaneComponent, { files, ports }: ControlPlanePlan): readonly string[] {
  const common = [
    `--kubeconfig=${files.kubeconfig(component)}`,
    "--bind-address=127.0.0.1",
    `--secure-port=${ports[component]}`,
    `--cert-dir=${files.certs}`,
    `--tls-cert-file=${files.serverCert}`,
    `--tls-private-key-file=${files.serverKey}`,
    "--leader-elect=false",
    "--kube-api-qps=500",
    "--kube-api-burst=1000",
  ];
  if (component === "kube-scheduler") return common;
  return [
    ...common,
    `--controllers=*,${absentControllers.map((name) => `-${name}`).join()}`,
    "--use-service-account-credentials",
    `--service-account-private-key-file=${files.serviceAccountKey}`,
    `--root-ca-file=${files.ca}`,
    `--cluster-signing-cert-file=${files.ca}`,
    `--cluster-signing-key-file=${files.caKey}`,
  ];
}
