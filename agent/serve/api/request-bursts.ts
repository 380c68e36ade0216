import type { HttpRequestRecorder } from "../metrics/http-recorder.ts";

/** A node whose pages are all scraped every fifteen seconds has that many in minutes, so they cause no collection each time. */
const REQUESTS_OF_A_BURST = 100;

/** The recorder, and a call of `onBurst` when every hundredth request has been answered. */
export function withBursts(recordRequest: HttpRequestRecorder, onBurst: () => void): HttpRequestRecorder {
  let answered = 0;
  return (method, target) => {
    const recordAnswer = recordRequest(method, target);
    return () => {
      recordAnswer();
      answered++;
      if (answered % REQUESTS_OF_A_BURST === 0) onBurst();
    };
  };
}
