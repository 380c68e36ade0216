import { createClock } from "../../host/clock.ts";
import { KubeError } from "../../kube/error.ts";
import { FakeKube } from "../fakes/kube.ts";
import { kubeContract } from "./kube.ts";

kubeContract("the fake API server", async () => {
  const clock = createClock();
  const fake = new FakeKube({ clock });
  return {
    connection: fake,
    clock,
    async compact() {
      fake.compact();
      fake.breakWatches(new KubeError("UNREACHABLE", "the server restarts"));
    },
    end: async () => fake.close(),
  };
});
