//! Functions of a trait that go to another value of that trait as they are.

/// A function for `impl $of for …` that does as the same function of what is below: `$to`
/// says how that is reached from `self`, as `[|own| &own.below]`, or which of two it is, as
/// `[Self::A(below) => below, Self::B(below) => below]`. Traits that are put over one another
/// have a macro of their own that knows their functions; what is named in the signatures of
/// these has to be in scope.
#[macro_export]
macro_rules! pass_on {
    (@call [|$own:ident| $below:expr]
        $self:ident $of:ident $name:ident ($($arg:ident),*) $($wait:tt)*) => {{
        let $own = $self;
        <_ as $of>::$name($below, $($arg),*) $($wait)*
    }};
    (@call [$first:pat => $one:expr, $second:pat => $other:expr]
        $self:ident $of:ident $name:ident ($($arg:ident),*) $($wait:tt)*) => {
        match $self {
            $first => <_ as $of>::$name($one, $($arg),*) $($wait)*,
            $second => <_ as $of>::$name($other, $($arg),*) $($wait)*,
        }
    };
    ($to:tt $of:ident: fn $name:ident($($arg:ident: $type:ty),*) $(-> $out:ty)?) => {
        fn $name(&self, $($arg: $type),*) $(-> $out)? {
            $crate::pass_on!(@call $to self $of $name ($($arg),*))
        }
    };
    ($to:tt $of:ident: async fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty) => {
        async fn $name(&self, $($arg: $type),*) -> $out {
            $crate::pass_on!(@call $to self $of $name ($($arg),*) .await)
        }
    };
}
