import type {
  SubjectAccessReview,
  SubjectAccessReviewSpec,
  SubjectAccessReviewStatus,
  TokenReview,
  TokenReviewStatus,
} from "../proto/kubernetes/gen/types.ts";
import { KubeError } from "./error.ts";
import { DEFAULT_DEADLINE_MS } from "./request-options.ts";
import type { KubeConnection } from "./transport/connection.ts";

/**
 * Questions that the API server answers at once and does not store: whose token this is, and whether a user may do
 * something. Both reject with `KubeError`, whose message contains no token.
 */
export interface Reviews {
  reviewToken(token: string, signal?: AbortSignal): Promise<TokenReviewStatus>;
  reviewAccess(spec: SubjectAccessReviewSpec, signal?: AbortSignal): Promise<SubjectAccessReviewStatus>;
}

export function createReviews(connection: Pick<KubeConnection, "request">): Reviews {
  async function review<T>(path: string, body: TokenReview | SubjectAccessReview, signal?: AbortSignal): Promise<T> {
    const options = { deadlineMs: DEFAULT_DEADLINE_MS, priorityLevel: "reviews" as const, ...(signal && { signal }) };
    const answer = await connection.request({ method: "POST", path, body, ...options });
    const { status } = (answer ?? {}) as { readonly status?: unknown };
    if (typeof status !== "object" || status === null)
      throw new KubeError("NOT_JSON", `POST ${path}: the answer has no status`);
    return status as T;
  }

  return {
    reviewToken: (token, signal) =>
      review("/apis/authentication.k8s.io/v1/tokenreviews", { ...TOKEN_REVIEW, metadata: {}, spec: { token } }, signal),
    reviewAccess: (spec, signal) =>
      review("/apis/authorization.k8s.io/v1/subjectaccessreviews", { ...ACCESS_REVIEW, metadata: {}, spec }, signal),
  };
}

const TOKEN_REVIEW = { apiVersion: "authentication.k8s.io/v1", kind: "TokenReview" } as const;
const ACCESS_REVIEW = { apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview" } as const;
