/*
 * The node authorizer learns from a pod which objects its node may read, and from a claim which volume. Its first answer
 * about a new pod may come before that (https://kubernetes.io/docs/reference/access-authn-authz/node/).
 */

/** For so long after the first read of an object a `FORBIDDEN` counts as too early; milliseconds. */
export const WAIT_FOR_AUTHORIZER_MS = 1_000;
/** How soon a read that was too early is repeated; milliseconds. */
export const AUTHORIZER_RETRY_MS = 100;
