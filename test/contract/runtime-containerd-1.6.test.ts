import { containerdContract } from "./runtime-containerd.ts";

containerdContract("1.6");
