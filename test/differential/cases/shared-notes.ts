import type { Container, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage, webImage } from "../../bed/images/images.ts";
import { script } from "../../e2e/manifest.ts";
import type { PodCase } from "./pod-case.ts";

const mount = { volumeMounts: [{ name: "notes", mountPath: "/notes" }] };
export const notes = { volumes: [{ name: "notes", emptyDir: {} }] };
export const appendNote = (text: string) => `echo ${text} >> /notes/all`;
/** Writes the notes of all containers so far to this container's termination log. */
export const reportNotes = "cat /notes/all > /dev/termination-log";
/** Each instance exits with another code, 11, 12 and so on, so that a status shows which instance it is about. */
export const exitsByInstance = "echo >> /notes/tries; exit $((10 + $(wc -l < /notes/tries)))";
export const onSigterm = (text: string) => ["sh", "-c", `trap '${text}; exit 0' TERM; while true; do sleep 0.1; done`];

export const initContainer = (name: string, text: string, more: Partial<Container> = {}): Container => ({
  name,
  image: busyboxImage,
  command: script(text),
  ...mount,
  ...more,
});
export const sidecar = (name: string, command: readonly string[], more: Partial<Container> = {}): Container =>
  initContainer(name, "", { command: [...command], restartPolicy: "Always", ...more });
/** A pod whose containers share a file of notes. */
export const notesCase = (
  name: string,
  until: PodCase["until"],
  container: Partial<Container>,
  spec: Partial<PodSpec> = {},
): PodCase => ({
  name,
  container: { ...mount, ...container },
  spec: { ...notes, ...spec },
  until,
});
export const exec = (text: string) => ({ exec: { command: ["sh", "-c", text] } });
export const web = { image: webImage, command: [] };
