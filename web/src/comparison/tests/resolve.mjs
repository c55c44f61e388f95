// Node strips types by itself but wants file names; the modules name their neighbours as Vite does.
import { registerHooks } from "node:module";

registerHooks({
  resolve(specifier, context, next) {
    const bare = specifier.startsWith(".") && !/\.[cm]?[jt]s$/.test(specifier);
    return next(bare ? `${specifier}.ts` : specifier, context);
  },
});
