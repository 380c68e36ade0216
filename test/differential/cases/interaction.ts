import { busyboxImage } from "../../bed/images/images.ts";
import { script } from "../../e2e/manifest.ts";
import { hasEnded, isReady, type Play, statusOf } from "./pod-case.ts";

const mount = { volumeMounts: [{ name: "notes", mountPath: "/notes" }] };
const notes = { volumes: [{ name: "notes", emptyDir: {} }] };

/** Its container runs as its second instance, after what somebody has done to it. */
const beginsAnew = (kind: NonNullable<Play["afterwards"]>["kind"]): Pick<Play, "until" | "afterwards"> => ({
  until: isReady,
  afterwards: {
    kind,
    until: (pod) => pod !== undefined && isReady(pod) && statusOf(pod)?.restartCount === 1,
  },
});

/** A web server that sends whoever asks for it somewhere else. */
const redirecting = (location: string) =>
  script(
    `mkdir -p /tmp/www/cgi-bin; echo here > /tmp/www/index.html; printf '#!/bin/sh\\nprintf "Status: 302 Found\\\\r\\\\nLocation: ${location}\\\\r\\\\n\\\\r\\\\nelsewhere"\\n' > /tmp/www/cgi-bin/away; chmod +x /tmp/www/cgi-bin/away; exec httpd -f -p 8080 -h /tmp/www`,
  );
const redirected = (name: string, location: string): Play => ({
  name,
  container: {
    command: redirecting(location),
    readinessProbe: {
      httpGet: { port: 8080, path: "/cgi-bin/away" },
      ...{ initialDelaySeconds: 5, periodSeconds: 5, timeoutSeconds: 20 },
    },
  },
  until: isReady,
});

/** What pods meet with: somebody changes them, their sandbox ends, and servers send their probes elsewhere. */
export const encounters: readonly Play[] = [
  { name: "image-changed", ...beginsAnew("change the image") },
  { name: "sandbox-ends", ...beginsAnew("end the sandbox") },
  {
    name: "sandbox-ends-once",
    spec: { restartPolicy: "Never" },
    until: isReady,
    afterwards: { kind: "end the sandbox", until: (pod) => pod !== undefined && hasEnded(pod) },
  },
  {
    name: "sandbox-ends-after-init",
    spec: {
      ...notes,
      initContainers: [{ name: "first", image: busyboxImage, command: script("echo first >> /notes/all"), ...mount }],
    },
    ...beginsAnew("end the sandbox"),
  },
  {
    name: "rule-of-init-restarts-all",
    container: { command: script("cat /notes/all > /dev/termination-log"), ...mount },
    spec: {
      ...notes,
      restartPolicy: "Never",
      initContainers: [
        {
          ...{ name: "first", image: busyboxImage, ...mount, restartPolicy: "Never" },
          command: script("echo first >> /notes/all; test -e /notes/tried && exit 0; touch /notes/tried; exit 4"),
          restartPolicyRules: [{ action: "RestartAllContainers", exitCodes: { operator: "In", values: [4] } }],
        },
      ],
    },
    until: hasEnded,
  },
  redirected("ready-by-redirect", "/index.html"),
  redirected("ready-by-redirect-elsewhere", "http://198.51.100.9/"),
];
