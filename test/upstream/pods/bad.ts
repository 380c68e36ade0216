export const badPods: Readonly<Record<string, unknown>> = {};
