window.parleyData = function () {};
