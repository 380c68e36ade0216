import { join } from "node:path";

/** What a control plane may have beside etcd and the API server. */
export type Part = "kube-controller-manager" | "kube-scheduler";

/** Where the control plane's files are, and its ports of 127.0.0.1. */
export interface ControlPlanePlan {
  readonly files: ReturnType<typeof controlPlaneFiles>;
  readonly ports: Readonly<Record<"etcd" | "etcdPeer" | "apiServer" | Part, number>>;
}

/** The names of the control plane's files below its folder. */
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

/** Services get addresses next to those that beds give to pods, which begin at 10.192.0.0. */
const serviceRange = "10.191.0.0/24";
/** The first address of it is that of the service `kubernetes`. */
export const serverHosts = [
  "127.0.0.1",
  "localhost",
  "10.191.0.1",
  "kubernetes",
  "kubernetes.default",
  "kubernetes.default.svc",
];

/** One member that elects itself at once, and keeps nothing beyond its process. */
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
    "--heartbeat-interval=20",
    "--election-timeout=200",
    "--unsafe-no-fsync",
    "--log-level=warn",
  ];
}

/**
 * The API server with the authorizer and the admission that hold a node to its own pods. The endpoint of the service
 * `kubernetes` is left out, since it may not be a loopback address, and there is no other.
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
    "--enable-bootstrap-token-auth",
    "--allow-privileged=true",
  ];
}

/**
 * The controller manager and the scheduler, each as the user that a cluster's own would be, and fast enough not to be what
 * a test waits for: with their own limits the controllers alone take five seconds to begin.
 */
export function partArgs(part: Part, { files, ports }: ControlPlanePlan): readonly string[] {
  const common = [
    `--kubeconfig=${files.kubeconfig(part)}`,
    "--bind-address=127.0.0.1",
    `--secure-port=${ports[part]}`,
    `--cert-dir=${files.certs}`,
    `--tls-cert-file=${files.serverCert}`,
    `--tls-private-key-file=${files.serverKey}`,
    "--leader-elect=false",
    "--kube-api-qps=500",
    "--kube-api-burst=1000",
  ];
  if (part === "kube-scheduler") return common;
  return [
    ...common,
    "--use-service-account-credentials",
    `--service-account-private-key-file=${files.serviceAccountKey}`,
    `--root-ca-file=${files.ca}`,
    `--cluster-signing-cert-file=${files.ca}`,
    `--cluster-signing-key-file=${files.caKey}`,
  ];
}
