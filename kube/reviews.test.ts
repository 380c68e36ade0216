import { expect, test } from "bun:test";
import { createReviews } from "./reviews.ts";
import type { KubeRequest } from "./transport/connection.ts";

function reviewsThatAnswer(answer: unknown) {
  const sent: KubeRequest[] = [];
  const reviews = createReviews({
    async request(request) {
      sent.push(request);
      return answer;
    },
  });
  return { reviews, sent };
}

test("a token is reviewed without audiences, as the kubelet asks", async () => {
  const status = { authenticated: true, user: { username: "anna" } };
  const { reviews, sent } = reviewsThatAnswer({ kind: "TokenReview", metadata: {}, status });
  expect(await reviews.reviewToken("t")).toEqual(status);
  expect(sent).toMatchObject([
    {
      method: "POST",
      path: "/apis/authentication.k8s.io/v1/tokenreviews",
      body: { apiVersion: "authentication.k8s.io/v1", kind: "TokenReview", spec: { token: "t" } },
    },
  ]);
});

test("access is reviewed by the question that is given", async () => {
  const { reviews, sent } = reviewsThatAnswer({ status: { allowed: false, reason: "no rule" } });
  const spec = { user: "anna", resourceAttributes: { verb: "get", resource: "nodes", subresource: "log" } };
  expect(await reviews.reviewAccess(spec)).toEqual({ allowed: false, reason: "no rule" });
  expect(sent).toMatchObject([
    {
      path: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
      body: { apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview", spec },
    },
  ]);
});

test.each([[undefined], [null], ["allowed"], [{}], [{ status: null }], [{ status: "allowed" }]])(
  "%j is no answer: nothing is allowed by it, and the error names no token",
  async (answer) => {
    const { reviews } = reviewsThatAnswer(answer);
    const error = await reviews.reviewToken("secret").catch((cause: unknown) => cause);
    expect(error).toMatchObject({ name: "KubeError", code: "NOT_JSON" });
    expect(String(error)).not.toContain("secret");
  },
);
