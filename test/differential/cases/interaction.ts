import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../../bed/images/images.ts";
import { script } from "../../e2e/manifest.ts";
import { containerStatusOf, hasEnded, isReady, isThereAndHasEnded, type PodCase } from "./pod-case.ts";

const mount = { volumeMounts: [{ name: "notes", mountPath: "/notes" }] };
const notes = { volumes: [{ name: "notes", emptyDir: {} }] };

const isReadyAgain = (pod: Pod | undefined) =>
  pod !== undefined && isReady(pod) && containerStatusOf(pod)?.restartCount === 1;

/** The pod settles again when its container runs as the second instance, after the given change. */
const restartsAfter = (kind: NonNullable<PodCase["afterwards"]>["kind"]): Pick<PodCase, "until" | "afterwards"> => ({
  until: isReady,
  afterwards: {
    kind,
    until: isReadyAgain,
  },
});

/** A web server that redirects every request of `/cgi-bin/away`. */
const redirectServer = (location: string) =>
  script(
    `mkdir -p /tmp/www/cgi-bin; echo here > /tmp/www/index.html; printf '#!/bin/sh\\nprintf "Status: 302 Found\\\\r\\\\nLocation: ${location}\\\\r\\\\n\\\\r\\\\nelsewhere"\\n' > /tmp/www/cgi-bin/away; chmod +x /tmp/www/cgi-bin/away; exec httpd -f -p 8080 -h /tmp/www`,
  );
const redirectedCase = (name: string, location: string): PodCase => ({
  name,
  container: {
    command: redirectServer(location),
    readinessProbe: {
      httpGet: { port: 8080, path: "/cgi-bin/away" },
      ...{ initialDelaySeconds: 5, periodSeconds: 5, timeoutSeconds: 20 },
    },
  },
  until: isReady,
});

/** Pods that are changed, pods whose sandbox dies, and pods whose probes are redirected. */
export const interactionCases: readonly PodCase[] = [
  { name: "image-changed", ...restartsAfter("change the image") },
  { name: "sandbox-ends", ...restartsAfter("end the sandbox") },
  {
    name: "sandbox-ends-once",
    spec: { restartPolicy: "Never" },
    until: isReady,
    afterwards: { kind: "end the sandbox", until: isThereAndHasEnded },
  },
  {
    name: "sandbox-ends-after-init",
    spec: {
      ...notes,
      initContainers: [{ name: "first", image: busyboxImage, command: script("echo first >> /notes/all"), ...mount }],
    },
    ...restartsAfter("end the sandbox"),
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
  redirectedCase("ready-by-redirect", "/index.html"),
  redirectedCase("ready-by-redirect-elsewhere", "http://198.51.100.9/"),
];
