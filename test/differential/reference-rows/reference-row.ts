/**
 * A row of this project's reference of the 1.36 kubelet, by its number. `shown`: the pods that show it beside that kubelet,
 * each with what it shows, or one sentence with the reason why no pod can.
 *
 * The test holds that the recordings of the kubelet have what each pod shows here, and that the two pods without any feature
 * do not show it as well. Whether the pod shows the whole row, and because of the feature, the author of the row decides.
 */
export type ReferenceRow = readonly [
  row: number,
  what: string,
  shown: Readonly<Record<string, Observables | typeof notObservable>> | string,
];

/**
 * Texts of the lines `FIELD = VALUE` that every recorded run of the kubelet has of a pod (`recorded-observables.ts`): a
 * field of the status, an event, what the container sees, a file of a cgroup. `without TEXT`: no line has this text.
 */
type Observables = string | readonly string[];

/**
 * The pod shows nothing that a pod without the feature does not show. Only its manifest says that it has the feature; beside
 * the kubelet it shows that Berth accepts the feature and runs the pod all the same.
 */
export const notObservable = Symbol("as a pod without the feature");

export const dependsOnNode =
  "It depends on the node's free resources, which cannot be made equal for three nodes on one machine.";
export const internal = "It is an internal mechanism of the kubelet; all pods show its effect.";
export const needsRestart =
  "It needs a restart of the agent, by which both kubelets would lose their back-off; the e2e tests show it.";
export const needsOptions =
  "It is a setting of a whole node, and the recorded kubelet has the defaults; tables of the formulas cover it.";
