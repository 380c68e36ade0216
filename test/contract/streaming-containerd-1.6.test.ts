import { streamingContract } from "./streaming-containerd.ts";

streamingContract("1.6");
