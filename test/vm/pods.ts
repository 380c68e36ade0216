import { busyboxImage, webImage } from "../bed/images/images.ts";

/** The maximum number of processes of each container. */
export const podPidsLimit = 60;

/** The guest's directory that pods and tests share. */
export const sharedFolder = "/run/shared";

const shared = { name: "shared", hostPath: { path: sharedFolder, type: "Directory" } };
const mounted = { name: "shared", mountPath: "/shared" };
const pod = (name: string, spec: object) => ({ apiVersion: "v1", kind: "Pod", metadata: { name }, spec });
const script = (text: string) => ["sh", "-c", text];

/**
 * A fork bomb: each process starts two, up to the limit. Its CPU is limited too, or it would use up the emulated
 * processor.
 */
export const bomb = pod("bomb", {
  terminationGracePeriodSeconds: 1,
  containers: [
    {
      name: "main",
      image: busyboxImage,
      command: script("bomb() { bomb | bomb & }; bomb; sleep 100000"),
      resources: { limits: { cpu: "300m" } },
    },
  ],
});

/**
 * Its liveness probe fails while a file exists, which its preStop hook removes. Timeouts are long: an exec takes
 * seconds when emulated.
 */
export const probed = pod("probed", {
  terminationGracePeriodSeconds: 60,
  containers: [
    {
      name: "main",
      image: webImage,
      readinessProbe: { httpGet: { path: "/", port: 8080 }, periodSeconds: 1, timeoutSeconds: 120 },
      livenessProbe: {
        exec: { command: ["test", "!", "-e", "/shared/sick"] },
        periodSeconds: 5,
        timeoutSeconds: 120,
        failureThreshold: 1,
      },
      lifecycle: {
        postStart: { exec: { command: script("echo started >> /shared/hooks") } },
        preStop: { exec: { command: script("echo stopped >> /shared/hooks; rm /shared/sick") } },
      },
      volumeMounts: [mounted],
    },
  ],
  volumes: [shared],
});

/**
 * Only one of its three processes allocates memory, once a file exists. If only that one is killed, the first writes
 * that it survived.
 */
export const hungry = pod("hungry", {
  restartPolicy: "Never",
  terminationGracePeriodSeconds: 1,
  containers: [
    {
      name: "main",
      image: busyboxImage,
      command: script(
        "sleep 100000 & until test -e /shared/eat; do sleep 1; done; tail /dev/zero; echo lives >> /shared/survivors; sleep 100000",
      ),
      resources: { requests: { memory: "16Mi" }, limits: { memory: "32Mi" } },
      volumeMounts: [mounted],
    },
  ],
  volumes: [shared],
});
