import { containerdContract } from "./runtime-containerd.ts";

containerdContract("2.1");
