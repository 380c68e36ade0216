import { streamingContract } from "./streaming-containerd.ts";

streamingContract("2.1");
