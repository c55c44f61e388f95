import type { Pair, PairSide } from "../../api/types";

/** What an opened row can change about how tensors belong together; tensors are named by their keys. */
export interface PairingActions {
  /** Asks for a tensor of a side to go with the row's other one. */
  readonly pick: (pair: Pair, side: PairSide) => void;
  readonly pair: (reference: string, candidate: string) => void;
  readonly drop: (reference: string, candidate: string) => void;
  /** Whether the two were paired on this page. */
  readonly byHand: (reference: string, candidate: string) => boolean;
  readonly layout: (key: string, recipe: string) => void;
}
