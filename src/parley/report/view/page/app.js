globalThis.parleyData = () => {};
