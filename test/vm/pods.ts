import { busyboxImage, webImage } from "../bed/images/images.ts";

/** How many processes each container may have. */
export const podPidsLimit = 60;

/** The folder of the guest that pods and tests share. */
export const sharedFolder = "/run/shared";

const shared = { name: "shared", hostPath: { path: sharedFolder, type: "Directory" } };
const mounted = { name: "shared", mountPath: "/shared" };
const pod = (name: string, spec: object) => ({ apiVersion: "v1", kind: "Pod", metadata: { name }, spec });
const script = (text: string) => ["sh", "-c", text];

/** Two processes for each one, until there may be no more. Its share of the processor is bounded too, or the emulated one has none left. */
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

/** It becomes sick when a file says so, and its preStop hook heals it. Exec on an emulated processor takes seconds. */
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

/** Of its three processes only one eats, once a file says so. Were that one alone killed, the first would say that it lives on. */
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
