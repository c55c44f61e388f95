/** Whether the page is a file that was handed on: there is no server, only what is embedded. */
export const EMBEDDED = "firstdiff-shared";
export const isShared = document.getElementById(EMBEDDED) !== null;
